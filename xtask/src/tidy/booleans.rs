//! Boolean parameters.

use super::source::{Source, Word};

/// The functions outside of tests with a parameter of type `bool`. Left out are closures, functions
/// of a trait in an `impl` (its declaration decides), and those that only set: `set_name(value)`,
/// and a builder's `name(self, value) -> Self`.
pub fn booleans(source: &Source) -> Vec<(usize, String)> {
    let words = source.words.as_slice();
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if is_trait_impl(words, at) {
            at = after_block(words, at);
            continue;
        }
        if let Some(function) = Signature::read(&words[at..]) {
            let line = words[at].line;
            if !source.is_test_line(line) && !function.is_setter() {
                let wrong = function.booleans.iter();
                found.extend(wrong.map(|name| (line, format!("{}: {name}: bool", function.name))));
            }
        }
        at += 1;
    }
    found
}

/// What of a function's head this rule needs.
struct Signature<'a> {
    name: &'a str,
    has_self: bool,
    /// How many parameters it has beside `self`.
    others: usize,
    booleans: Vec<&'a str>,
    returns_self: bool,
}

impl<'a> Signature<'a> {
    /// The function that begins with `words`, if one does.
    fn read(words: &'a [Word]) -> Option<Signature<'a>> {
        let [keyword, name, ..] = words else { return None };
        if keyword.text != "fn" || !name.text.starts_with(|letter: char| letter.is_alphabetic()) {
            return None;
        }
        let open = 2 + generics(&words[2..]);
        if words.get(open)?.text != "(" {
            return None;
        }
        let close = open + group(&words[open..]);
        let mut signature = Signature {
            name: &name.text,
            has_self: false,
            others: 0,
            booleans: Vec::new(),
            returns_self: false,
        };
        for parameter in parameters(&words[open + 1..close.saturating_sub(1)]) {
            let texts: Vec<&str> = parameter.iter().map(|word| word.text.as_str()).collect();
            match texts.as_slice() {
                [] => {}
                [.., name, ":", "bool"] => {
                    signature.others += 1;
                    signature.booleans.push(name);
                }
                [.., "self"] | ["self", ..] | ["mut", "self", ..] => signature.has_self = true,
                _ => signature.others += 1,
            }
        }
        let after: Vec<&str> = words[close..].iter().take(3).map(|word| &*word.text).collect();
        signature.returns_self = after == ["-", ">", "Self"];
        Some(signature)
    }

    fn is_setter(&self) -> bool {
        let sets = self.name.starts_with("set_") || self.returns_self;
        self.has_self && self.others == 1 && sets
    }
}

/// Whether `impl TRAIT for TYPE` begins here.
fn is_trait_impl(words: &[Word], at: usize) -> bool {
    let begins = at.checked_sub(1).is_none_or(|before| {
        matches!(words[before].text.as_str(), "}" | ";" | "{" | "]" | "unsafe")
    });
    if words[at].text != "impl" || !begins {
        return false;
    }
    let from = at + 1 + generics(&words[at + 1..]);
    let head = words[from..].iter().take_while(|word| word.text != "{" && word.text != "where");
    let head: Vec<&str> = head.map(|word| word.text.as_str()).collect();
    head.windows(2).any(|pair| pair[0] == "for" && pair[1] != "<")
}

/// The place after the braces that open next.
fn after_block(words: &[Word], at: usize) -> usize {
    let open = words[at..].iter().position(|word| word.text == "{");
    open.map_or(words.len(), |open| at + open + group(&words[at + open..]))
}

/// The length of the generics `<...>` that `words` begin with; 0 if there are none.
fn generics(words: &[Word]) -> usize {
    let mut depth = 0_i32;
    for (at, word) in words.iter().enumerate() {
        depth += angle(words, at);
        if depth == 0 {
            return if word.text == ">" { at + 1 } else { 0 };
        }
    }
    0
}

/// 1 for an angle bracket that opens at `at`, -1 for one that closes, 0 for others and for `->`.
fn angle(words: &[Word], at: usize) -> i32 {
    let before = at.checked_sub(1).map(|before| words[before].text.as_str());
    match words[at].text.as_str() {
        "<" => 1,
        ">" if !matches!(before, Some("-" | "=")) => -1,
        _ => 0,
    }
}

/// The length of the group in brackets that `words` begin with.
fn group(words: &[Word]) -> usize {
    let mut depth = 0_i32;
    for (at, word) in words.iter().enumerate() {
        match word.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    words.len()
}

/// What the commas outside of all brackets separate.
fn parameters(words: &[Word]) -> Vec<&[Word]> {
    let mut parts = Vec::new();
    let mut depth = 0_i32;
    let mut from = 0;
    for (at, word) in words.iter().enumerate() {
        match word.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => {
                parts.push(&words[from..at]);
                from = at + 1;
            }
            _ => depth += angle(words, at),
        }
    }
    parts.push(&words[from..]);
    parts
}
