//! Indented answers, for people. Decides who gets them and how they look; their content is not looked at.

use super::{Query, Response};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;

/// Programs by which people ask, as Kubernetes knows them.
const PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// Whether the client wants to read the answer: it says so, or it is one of those that people use.
pub fn wanted(query: &Query, headers: &HeaderMap) -> bool {
    match query.get("pretty") {
        Some(text) => matches!(text, "1" | "t" | "T" | "true" | "True" | "TRUE"),
        None => {
            let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
            PEOPLE.iter().any(|one| agent.starts_with(one))
        }
    }
}

/// The response, indented as it is sent, if it is JSON.
pub fn indented(response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let mut indent = Indent::default();
    let body = body.map_frame(move |frame| frame.map_data(|data| indent.chunk(&data)));
    http::Response::from_parts(parts, body.boxed_unsync())
}

/// Where in a JSON text the last chunk ended.
#[derive(Default)]
struct Indent {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// The last bracket opened something that has nothing in it so far.
    opened: bool,
}

impl Indent {
    fn chunk(&mut self, json: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(json.len() * 2);
        for byte in json {
            self.byte(*byte, &mut out);
        }
        out.freeze()
    }

    fn byte(&mut self, byte: u8, out: &mut BytesMut) {
        if self.in_text {
            out.extend_from_slice(&[byte]);
            self.in_text = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return;
        }
        let closes = matches!(byte, b'}' | b']');
        if byte.is_ascii_whitespace() {
            return;
        }
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        // Something empty stays on its line.
        if self.opened != closes {
            self.line(out);
        }
        self.opened = matches!(byte, b'{' | b'[');
        out.extend_from_slice(&[byte]);
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth += 1,
            b',' => self.line(out),
            b':' => out.extend_from_slice(b" "),
            _ => {}
        }
    }

    fn line(&self, out: &mut BytesMut) {
        out.extend_from_slice(b"\n");
        for _ in 0..self.depth {
            out.extend_from_slice(b"  ");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn it_looks_like_any_other_indented_json_however_it_is_cut() {
        let values = [
            json!({"a": {"b": [1, {"c": "x,y:{}[] \\\" é"}, []], "d": {}}, "e": null, "f": -1.5e3, "g": "\\"}),
            json!([[], {}, [[1]], ""]),
            json!("a"),
            json!({}),
        ];
        for value in values {
            let (compact, expect) = (value.to_string(), serde_json::to_string_pretty(&value).unwrap());
            for size in [1, 3, compact.len()] {
                let mut indent = Indent::default();
                let chunks: Vec<Bytes> = compact.as_bytes().chunks(size).map(|part| indent.chunk(part)).collect();
                assert_eq!(String::from_utf8(chunks.concat()).unwrap(), expect, "in pieces of {size}");
            }
            assert_eq!(serde_json::from_str::<Value>(&expect).unwrap(), value);
        }
    }

    #[test]
    fn who_asks_or_is_a_person_s_program_gets_it() {
        let check = |query: &str, agent: &'static str, expect: bool| {
            let headers = HeaderMap::from_iter([(header::USER_AGENT, header::HeaderValue::from_static(agent))]);
            assert_eq!(wanted(&Query::parse(Some(query)), &headers), expect, "{query} {agent}");
        };
        check("pretty=true", "kubectl/v1.35", true);
        check("pretty=1", "", true);
        check("pretty=false", "curl/8", false);
        check("pretty=nonsense", "curl/8", false);
        check("", "curl/8", true);
        check("", "kubectl/v1.35", false);
    }
}
