//! How an expression's text falls into words. It decides what literals mean; grammar is the parser's.

use super::ast::Literal;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(String),
    Literal(Literal),
    /// An operator or bracket.
    Mark(&'static str),
    End,
}

/// A word and the offset, in characters, where it begins.
pub(super) type Placed = (Token, u32);

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub at: u32,
    pub what: String,
}

pub(super) const MARKS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", ".", ",", ":", "?", "+", "-", "*", "/", "%", "!",
    "<", ">",
];

pub(super) fn words(text: &str) -> Result<Vec<Placed>, Fault> {
    let chars: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { chars: &chars, at: 0 };
    let mut words = Vec::new();
    loop {
        lexer.skip_space();
        let at = lexer.at as u32;
        let word = lexer.word()?;
        let end = word == Token::End;
        words.push((word, at));
        if end {
            return Ok(words);
        }
    }
}

struct Lexer<'c> {
    chars: &'c [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn fault<T>(&self, what: impl Into<String>) -> Result<T, Fault> {
        Err(Fault { at: self.at as u32, what: format!("Syntax error: {}", what.into()) })
    }

    fn skip_space(&mut self) {
        loop {
            match self.peek(0) {
                ' ' | '\t' | '\n' | '\r' | '\u{c}' => self.at += 1,
                '/' if self.peek(1) == '/' => {
                    while self.at < self.chars.len() && self.peek(0) != '\n' {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn word(&mut self) -> Result<Token, Fault> {
        if self.at >= self.chars.len() {
            return Ok(Token::End);
        }
        let c = self.peek(0);
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_ascii_digit()) {
            return self.number();
        }
        if let Some(prefix) = self.quote() {
            return self.quoted(prefix);
        }
        if c.is_ascii_alphabetic() || c == '_' {
            let from = self.at;
            while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == '_' {
                self.at += 1;
            }
            let name: String = self.chars[from..self.at].iter().collect();
            return Ok(match name.as_str() {
                "true" => Token::Literal(Literal::Bool(true)),
                "false" => Token::Literal(Literal::Bool(false)),
                "null" => Token::Literal(Literal::Null),
                "in" => Token::Mark("in"),
                _ => Token::Name(name),
            });
        }
        for mark in MARKS {
            if mark.chars().enumerate().all(|(ahead, m)| self.peek(ahead) == m) {
                self.at += mark.len();
                return Ok(Token::Mark(mark));
            }
        }
        self.fault(format!("token recognition error at: '{c}'"))
    }

    fn number(&mut self) -> Result<Token, Fault> {
        let from = self.at;
        let hex = self.peek(0) == '0' && matches!(self.peek(1), 'x' | 'X');
        if hex {
            self.at += 2;
            while self.peek(0).is_ascii_hexdigit() {
                self.at += 1;
            }
        } else {
            self.digits();
            let mut whole = true;
            if self.peek(0) == '.' && self.peek(1).is_ascii_digit() {
                self.at += 1;
                self.digits();
                whole = false;
            }
            let signed = usize::from(matches!(self.peek(1), '+' | '-'));
            if matches!(self.peek(0), 'e' | 'E') && self.peek(1 + signed).is_ascii_digit() {
                self.at += 1 + signed;
                self.digits();
                whole = false;
            }
            if !whole {
                let text: String = self.chars[from..self.at].iter().collect();
                return text
                    .parse()
                    .map(|f| Token::Literal(Literal::Double(f)))
                    .or_else(|_| self.fault("invalid double"));
            }
        }
        let text: String = self.chars[from + if hex { 2 } else { 0 }..self.at].iter().collect();
        let radix = if hex { 16 } else { 10 };
        if matches!(self.peek(0), 'u' | 'U') {
            self.at += 1;
            let value = u64::from_str_radix(&text, radix);
            return value.map(|u| Token::Literal(Literal::Uint(u))).or_else(|_| self.fault("invalid uint literal"));
        }
        match i64::from_str_radix(&text, radix) {
            Ok(value) => Ok(Token::Literal(Literal::Int(value))),
            // Only its negation fits; the parser makes that of it.
            Err(_) if u64::from_str_radix(&text, radix) == Ok(1 << 63) => Ok(Token::Literal(Literal::Int(i64::MIN))),
            Err(_) => self.fault("invalid int literal"),
        }
    }

    fn digits(&mut self) {
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    /// Raw and bytes, if a quoted text begins here.
    fn quote(&self) -> Option<(bool, bool, usize)> {
        let (mut raw, mut bytes, mut length) = (false, false, 0);
        while length < 2 {
            match self.peek(length) {
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes => bytes = true,
                _ => break,
            }
            length += 1;
        }
        matches!(self.peek(length), '"' | '\'').then_some((raw, bytes, length))
    }

    fn quoted(&mut self, (raw, is_bytes, prefix): (bool, bool, usize)) -> Result<Token, Fault> {
        let begin = self.at;
        self.at += prefix;
        let quote = self.peek(0);
        let long = self.peek(1) == quote && self.peek(2) == quote;
        let width = if long { 3 } else { 1 };
        self.at += width;
        let (mut text, mut bytes) = (String::new(), Vec::new());
        loop {
            if self.at >= self.chars.len() || (!long && matches!(self.peek(0), '\n' | '\r')) {
                self.at = begin;
                return self.fault("token recognition error: unterminated string");
            }
            if (0..width).all(|ahead| self.peek(ahead) == quote) {
                self.at += width;
                break;
            }
            let c = self.peek(0);
            self.at += 1;
            if c == '\\' && !raw {
                match self.escape(is_bytes)? {
                    Escaped::Char(c) => push(c, is_bytes, &mut text, &mut bytes),
                    Escaped::Byte(b) => bytes.push(b),
                }
            } else {
                push(c, is_bytes, &mut text, &mut bytes);
            }
        }
        Ok(Token::Literal(if is_bytes { Literal::Bytes(bytes) } else { Literal::Text(text) }))
    }

    fn escape(&mut self, is_bytes: bool) -> Result<Escaped, Fault> {
        let c = self.peek(0);
        self.at += 1;
        let code = |lexer: &mut Self, digits: usize, radix: u32| {
            let text: String = (0..digits).map(|ahead| lexer.peek(ahead)).collect();
            lexer.at += digits;
            u32::from_str_radix(&text, radix).or_else(|_| lexer.fault("invalid escape sequence"))
        };
        let code = match c {
            'a' => return Ok(Escaped::Char('\u{7}')),
            'b' => return Ok(Escaped::Char('\u{8}')),
            'f' => return Ok(Escaped::Char('\u{c}')),
            'n' => return Ok(Escaped::Char('\n')),
            'r' => return Ok(Escaped::Char('\r')),
            't' => return Ok(Escaped::Char('\t')),
            'v' => return Ok(Escaped::Char('\u{b}')),
            '\\' | '\'' | '"' | '`' | '?' => return Ok(Escaped::Char(c)),
            'x' | 'X' => code(self, 2, 16)?,
            'u' if !is_bytes => code(self, 4, 16)?,
            'U' if !is_bytes => code(self, 8, 16)?,
            '0'..='3' => {
                self.at -= 1;
                code(self, 3, 8)?
            }
            _ => return self.fault("invalid escape sequence"),
        };
        match (is_bytes, u8::try_from(code), char::from_u32(code)) {
            (true, Ok(byte), _) => Ok(Escaped::Byte(byte)),
            (false, _, Some(c)) => Ok(Escaped::Char(c)),
            _ => self.fault("invalid unicode code point"),
        }
    }
}

enum Escaped {
    Char(char),
    Byte(u8),
}

fn push(c: char, is_bytes: bool, text: &mut String, bytes: &mut Vec<u8>) {
    if is_bytes {
        let mut buffer = [0; 4];
        bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
    } else {
        text.push(c);
    }
}
