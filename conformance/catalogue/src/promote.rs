//! Takes `state: {pending: …}` from behaviours that hold now. It edits text, so that comments and order stay.

/// The file's text without the states of these ids, and how many were taken.
pub fn promote(text: &str, ids: &[&str]) -> (String, usize) {
    let mut promoting = false;
    let mut taken = 0;
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if let Some(id) = line.strip_prefix("- id: ") {
            promoting = ids.contains(&id.trim());
        }
        if promoting && line.starts_with("  state: {pending:") {
            taken += 1;
        } else {
            kept.push_str(line);
        }
    }
    (kept, taken)
}

#[cfg(test)]
mod tests {
    use super::promote;

    #[test]
    fn only_the_named_lose_their_state() {
        let text = "behaviours:\n- id: a.b\n  state: {pending: soon}\n  says: x\n- id: a.c\n  state: {pending: soon}\n";
        let expect = "behaviours:\n- id: a.b\n  says: x\n- id: a.c\n  state: {pending: soon}\n";
        assert_eq!(promote(text, &["a.b", "a.d"]), (expect.to_owned(), 1));
    }
}
