//! Rewrites the addresses in a page as it streams by, in the attributes that hold addresses. Everything else passes byte by byte.
//!
//! Decides what is a tag and which of its attributes are addresses; where an address leads is its caller's.

/// A tag that is longer passes as it is.
const MAX_TAG: usize = 64 * 1024;

/// (tag, attribute), as HTML has them.
const ADDRESSES: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];
/// Their content is text up to their own end, whatever it looks like.
const RAW: [&str; 6] = ["script", "style", "textarea", "title", "xmp", "iframe"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Reading {
    #[default]
    Text,
    /// Inside `<…>`, which is kept until its end.
    Tag,
    Comment,
    /// Until `</name`.
    Raw(&'static str),
    /// The rest of a tag that is too long.
    Overlong,
}

/// The state between two pieces of a page.
pub struct Rewriter<F> {
    address: F,
    reading: Reading,
    /// What is not decided yet: a tag, or the last bytes of something whose end is looked for.
    kept: Vec<u8>,
    /// Inside a tag: the quote that is open, and the last byte that is no space.
    open: Option<u8>,
    last: u8,
}

impl<F: Fn(&str) -> String> Rewriter<F> {
    pub fn new(address: F) -> Self {
        Self { address, reading: Reading::Text, kept: Vec::new(), open: None, last: 0 }
    }

    /// Takes a piece; what is certain of the page goes to `out`.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for byte in piece {
            self.byte(*byte, out);
        }
    }

    /// What is left at the page's end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.kept);
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.reading {
            Reading::Text if byte == b'<' => {
                self.kept.push(byte);
                self.reading = Reading::Tag;
                (self.open, self.last) = (None, byte);
            }
            Reading::Text => out.push(byte),
            Reading::Tag => self.in_tag(byte, out),
            Reading::Comment => {
                out.push(byte);
                self.remember(byte, 3);
                if self.kept == b"-->" {
                    self.kept.clear();
                    self.reading = Reading::Text;
                }
            }
            Reading::Raw(name) => {
                out.push(byte);
                self.remember(byte, name.len() + 2);
                if self.kept.starts_with(b"</") && self.kept[2..].eq_ignore_ascii_case(name.as_bytes()) {
                    self.kept.clear();
                    self.reading = Reading::Text;
                }
            }
            Reading::Overlong => {
                out.push(byte);
                if self.ends_tag(byte) {
                    self.reading = Reading::Text;
                }
            }
        }
    }

    /// Whether this byte ends the tag that it is in.
    fn ends_tag(&mut self, byte: u8) -> bool {
        match self.open {
            // A quote opens a value; elsewhere it is a letter like others.
            None if matches!(byte, b'"' | b'\'') && self.last == b'=' => self.open = Some(byte),
            None if byte == b'>' => return true,
            Some(quote) if quote == byte => self.open = None,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            self.last = byte;
        }
        false
    }

    /// Keeps the last so many bytes.
    fn remember(&mut self, byte: u8, count: usize) {
        if self.kept.len() == count {
            self.kept.remove(0);
        }
        self.kept.push(byte);
    }

    fn in_tag(&mut self, byte: u8, out: &mut Vec<u8>) {
        let second = self.kept.len() == 1;
        if second && !(byte.is_ascii_alphabetic() || byte == b'/' || byte == b'!' || byte == b'?') {
            // A lone bracket is text, and this byte may begin something of its own.
            out.append(&mut self.kept);
            self.reading = Reading::Text;
            return self.byte(byte, out);
        }
        self.kept.push(byte);
        let ends = self.ends_tag(byte);
        if self.kept == b"<!--" {
            out.append(&mut self.kept);
            self.reading = Reading::Comment;
        } else if ends {
            self.reading = self.tag(out);
            self.kept.clear();
        } else if self.kept.len() > MAX_TAG {
            self.reading = Reading::Overlong;
            out.append(&mut self.kept);
        }
    }

    /// A whole tag; what is read after it.
    fn tag(&self, out: &mut Vec<u8>) -> Reading {
        let text = std::str::from_utf8(&self.kept);
        let name = name(&self.kept);
        match (text, ADDRESSES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()))) {
            (Ok(text), Some((_, attributes))) => self.rewrite(text, attributes, out),
            _ => out.extend_from_slice(&self.kept),
        }
        RAW.iter().find(|raw| name.eq_ignore_ascii_case(raw.as_bytes())).map_or(Reading::Text, |raw| Reading::Raw(raw))
    }

    fn rewrite(&self, tag: &str, attributes: &[&str], out: &mut Vec<u8>) {
        let mut done = 0;
        for (key, value) in values(tag) {
            if attributes.iter().any(|known| tag[key.clone()].eq_ignore_ascii_case(known)) {
                out.extend_from_slice(&tag.as_bytes()[done..value.start]);
                out.extend_from_slice((self.address)(&tag[value.clone()]).as_bytes());
                done = value.end;
            }
        }
        out.extend_from_slice(&tag.as_bytes()[done..]);
    }
}

/// The name of an opening tag; empty for anything else.
fn name(tag: &[u8]) -> &[u8] {
    let inside = &tag[1..];
    let end = inside.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(inside.len());
    &inside[..end]
}

type Place = std::ops::Range<usize>;

/// Where each attribute's name and value stand in a tag.
fn values(tag: &str) -> Vec<(Place, Place)> {
    let bytes = tag.as_bytes();
    let skip = |mut at: usize, wanted: &dyn Fn(u8) -> bool| {
        while bytes.get(at).is_some_and(|byte| wanted(*byte)) {
            at += 1;
        }
        at
    };
    let space = |byte: u8| byte.is_ascii_whitespace() || byte == b'/';
    let mut found = Vec::new();
    let mut at = 1 + name(bytes).len();
    loop {
        at = skip(at, &space);
        let key = at..skip(at, &|byte| !byte.is_ascii_whitespace() && !b"=>/".contains(&byte));
        let equals = skip(key.end, &|byte| byte.is_ascii_whitespace());
        if key.is_empty() && bytes.get(equals) != Some(&b'=') {
            return found;
        }
        if bytes.get(equals) != Some(&b'=') {
            at = key.end;
            continue;
        }
        let start = skip(equals + 1, &|byte| byte.is_ascii_whitespace());
        let value = match bytes.get(start) {
            Some(quote @ (b'"' | b'\'')) => start + 1..skip(start + 1, &|byte| byte != *quote),
            _ => start..skip(start, &|byte| !byte.is_ascii_whitespace() && byte != b'>'),
        };
        at = if value.start > start { value.end + 1 } else { value.end };
        found.push((key, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rewriter() -> Rewriter<impl Fn(&str) -> String> {
        Rewriter::new(
            |address: &str| if address.starts_with('/') { format!("/P{address}") } else { address.to_owned() },
        )
    }

    fn page(text: &str) -> String {
        let (mut rewriter, mut out) = (rewriter(), Vec::new());
        rewriter.push(text.as_bytes(), &mut out);
        rewriter.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn addresses_in_attributes_are_rewritten() {
        let check = |text: &str, expect: &str| assert_eq!(page(text), expect);
        check("<a href=\"/rewriteme\">test</a>", "<a href=\"/P/rewriteme\">test</a>");
        check("<A HREF='/x' title=\"/y\">", "<A HREF='/P/x' title=\"/y\">");
        check("<img src=/x alt=/y><img src = \"/z\"/>", "<img src=/P/x alt=/y><img src = \"/P/z\"/>");
        check("<form action=/go method=post>", "<form action=/P/go method=post>");
        check("<a data-href=\"/x\" href=\"rel\">", "<a data-href=\"/x\" href=\"rel\">");
        check("<a title=\"a > b\" href=\"/x\">", "<a title=\"a > b\" href=\"/P/x\">");
        check("<a it's href=/x>", "<a it's href=/P/x>");
        check("<a href=\"/x?a=1&amp;b=2\">", "<a href=\"/P/x?a=1&amp;b=2\">");
        check("<input disabled src=/x>", "<input disabled src=/P/x>");
        check("<abbr href=\"/x\">", "<abbr href=\"/x\">");
    }

    #[test]
    fn what_only_looks_like_a_tag_stays() {
        let check = |text: &str| assert_eq!(page(text), text);
        check("1 < 2 <= 3 < ");
        check("<!-- <a href=\"/x\"> --> text");
        check("<script>document.write('<a href=\"/x\">')</script>");
        check("<STYLE>a::before{content:'<a href=/x>'}</style>");
        check("<a href=\"/never ends");
        check("</a href=\"/x\">");
        check("<!doctype html>");
        check("a < <\u{fc}>");
        assert_eq!(page("<script src=/s>1<2</script><a href=/x>"), "<script src=/P/s>1<2</script><a href=/P/x>");
        assert_eq!(page("<!----><a href=/x>"), "<!----><a href=/P/x>");
        assert_eq!(page("<<a href=/x>"), "<<a href=/P/x>");
    }

    #[test]
    fn a_tag_without_end_is_not_kept() {
        let (mut rewriter, mut out) = (rewriter(), Vec::new());
        rewriter.push(b"<a href=\"", &mut out);
        for _ in 0..4 * MAX_TAG {
            rewriter.push(b"x", &mut out);
        }
        assert!(rewriter.kept.len() <= MAX_TAG);
        rewriter.push(b"\"><a href=/x>", &mut out);
        assert!(String::from_utf8(out).unwrap().ends_with("xx\"><a href=/P/x>"));
    }

    proptest! {
        #[test]
        fn pages_are_the_same_however_they_are_cut(text in "(<a href=\"/x\">|<!--|-->|<script>|</script>|<|>|\"|'|=| |[a-z/]){0,40}", cut in 1_usize..7) {
            let (mut rewriter, mut out) = (rewriter(), Vec::new());
            text.as_bytes().chunks(cut).for_each(|piece| rewriter.push(piece, &mut out));
            rewriter.finish(&mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), page(&text));
        }

        #[test]
        fn nothing_but_prefixes_is_added(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut rewriter = Rewriter::new(str::to_owned);
            let mut out = Vec::new();
            rewriter.push(&bytes, &mut out);
            rewriter.finish(&mut out);
            prop_assert_eq!(out, bytes);
        }
    }
}
