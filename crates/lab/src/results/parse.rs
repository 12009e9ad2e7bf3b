//! A text as an expression, with its unit.
//!
//! *Invariants*: no expression is nested deeper than [`DEPTH_MAX`]; every result that one names is
//! known when it is read. What rows it names, [`Expression::rows`] lists, for the caller to check.
use super::{
    Expression, Figure, Member, Operator, Path, Ratio, ResultEntry, Row, RowKind, Summary, Unit,
};
use crate::quantity;
use crate::report::CALLS;

/// No expression is longer, in bytes.
const LENGTH_MAX: usize = 4096;
/// Parentheses and signs within one another.
const DEPTH_MAX: usize = 32;
/// Digits after the point that a number may have.
const FRACTION_DIGITS: usize = 9;

type Parsed<T> = Result<T, String>;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Number(Ratio, Unit),
    Word(String),
    Quoted(String),
    Mark(char),
}

impl Token {
    fn words(&self) -> String {
        match self {
            Token::Number(..) => "a number".to_owned(),
            Token::Word(word) => format!("{word:?}"),
            Token::Quoted(text) => format!("'{text}'"),
            Token::Mark(mark) => format!("{mark:?}"),
        }
    }
}

/// An expression and its unit. `known` are the results above it.
///
/// # Errors
/// What is wrong, as the end of a sentence.
pub fn parse(text: &str, known: &[ResultEntry]) -> Parsed<(Expression, Unit)> {
    if text.len() > LENGTH_MAX {
        return Err(format!("has {} bytes; it can have at most {LENGTH_MAX}", text.len()));
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, known };
    let found = parser.sum()?;
    match parser.peek() {
        None => Ok(found),
        Some(token) => Err(format!("{} is not expected there{}", token.words(), parser.hint())),
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn tokens(text: &str) -> Parsed<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '+' | '-' | '*' | '/' | '(' | ')' | ',' => {
                tokens.push(Token::Mark(first));
                1
            }
            '\'' => {
                let end = rest[1..].find('\'').ok_or("a quote is not closed")?;
                tokens.push(Token::Quoted(rest[1..=end].to_owned()));
                end + 2
            }
            '0'..='9' => {
                let is_number = |letter: char| is_word(letter) || letter == '.';
                let end = rest.find(|letter| !is_number(letter)).unwrap_or(rest.len());
                tokens.push(number(&rest[..end])?);
                end
            }
            first if is_word(first) => {
                let end = word_end(rest);
                tokens.push(Token::Word(rest[..end].to_owned()));
                end
            }
            other => return Err(format!("{other:?} is not expected there")),
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// A word may have points and hyphens between its letters.
fn word_end(text: &str) -> usize {
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let is_inside =
            matches!(letter, '-' | '.') && letters.peek().is_some_and(|(_, next)| is_word(*next));
        if !is_word(letter) && !is_inside {
            return at;
        }
    }
    text.len()
}

fn number(text: &str) -> Parsed<Token> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !is_plain {
        if let Ok(nanoseconds) = quantity::nanoseconds(text) {
            return Ok(Token::Number(Ratio::seconds(nanoseconds), Unit::SECONDS));
        }
        let bytes = quantity::bytes(text).map_err(|_| {
            format!("{text:?} is no number, no time such as 30s and no size such as 4K")
        })?;
        return Ok(Token::Number(Ratio::whole(bytes), Unit::BYTES));
    }
    let wrong = || format!("{text:?} is no number");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.len() > FRACTION_DIGITS || fraction.contains('.') || fraction.is_empty() {
        return Err(wrong());
    }
    let digits: i128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
    let lower = 10i128.pow(fraction.len() as u32);
    Ok(Token::Number(Ratio::new(digits, lower).ok_or_else(wrong)?, Unit::default()))
}

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    known: &'a [ResultEntry],
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    /// Passes this mark, if it is next.
    fn passes(&mut self, mark: char) -> bool {
        let is_next = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(is_next);
        is_next
    }

    /// Passes this word, if it is next.
    fn passes_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Word(next)) if next == word);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, mark: char) -> Parsed<()> {
        if self.passes(mark) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".to_owned(), Token::words);
        Err(format!("{mark:?} is expected in place of {found}"))
    }

    fn sum(&mut self) -> Parsed<(Expression, Unit)> {
        let (mut left, unit) = self.product()?;
        loop {
            let operator = match () {
                () if self.passes('+') => Operator::Add,
                () if self.passes('-') => Operator::Subtract,
                () => return Ok((left, unit)),
            };
            let (right, other) = self.product()?;
            if unit != other {
                let name = |unit: Unit| match unit.name() {
                    name if name.is_empty() => "a plain number".to_owned(),
                    name => name,
                };
                return Err(format!("adds {} and {}", name(unit), name(other)));
            }
            left = Expression::Both(operator, Box::new([left, right]));
        }
    }

    fn product(&mut self) -> Parsed<(Expression, Unit)> {
        let (mut left, mut unit) = self.factor()?;
        loop {
            let operator = match () {
                () if self.passes('*') => Operator::Multiply,
                () if self.passes('/') => Operator::Divide,
                () => return Ok((left, unit)),
            };
            let (right, other) = self.factor()?;
            let other = if operator == Operator::Divide { other.inverse() } else { other };
            unit = unit.times(other).ok_or("has a unit to too high a power")?;
            left = Expression::Both(operator, Box::new([left, right]));
        }
    }

    fn factor(&mut self) -> Parsed<(Expression, Unit)> {
        if self.depth >= DEPTH_MAX {
            return Err(format!("is nested deeper than {DEPTH_MAX}"));
        }
        self.depth += 1;
        let found = self.factor_within();
        self.depth -= 1;
        let (inner, unit) = found?;
        match self.passes_word("in") {
            true => Ok((Expression::In(Box::new(inner), self.name("in")?), unit)),
            false => Ok((inner, unit)),
        }
    }

    fn factor_within(&mut self) -> Parsed<(Expression, Unit)> {
        match self.next() {
            Some(Token::Number(number, unit)) => Ok((Expression::Number(number, unit), unit)),
            Some(Token::Mark('-')) => {
                let (inner, unit) = self.factor()?;
                Ok((Expression::Negative(Box::new(inner)), unit))
            }
            Some(Token::Mark('(')) => {
                let found = self.sum()?;
                self.expect(')')?;
                Ok(found)
            }
            Some(Token::Word(word)) => self.named(&word),
            Some(token @ Token::Quoted(_)) => {
                let text = token.words();
                Err(format!("{text} is not expected there: a row is named as measure {text}"))
            }
            Some(token) => Err(format!("{} is not expected there", token.words())),
            None => Err("ends where a value is expected".to_owned()),
        }
    }

    /// What may be meant where a word follows the name of a row.
    fn hint(&self) -> &'static str {
        let before = |back: usize| self.at.checked_sub(back).map(|at| &self.tokens[at]);
        let is_row = |token: &Token| match token {
            Token::Word(word) => word == "measure" || word == "step",
            _ => false,
        };
        let is_word = matches!(self.peek(), Some(Token::Word(_)));
        match is_word && before(2).is_some_and(is_row) {
            true => "; a name with blanks is in single quotes",
            false => "",
        }
    }

    /// What a word begins: an operand or a function.
    fn named(&mut self, word: &str) -> Parsed<(Expression, Unit)> {
        let summary = Summary::NAMES.iter().find(|(name, _)| *name == word);
        if let Some((_, summary)) = summary {
            return self.summary(*summary);
        }
        if word == "result" {
            let name = self.name("result")?;
            let known = self.known.iter().find(|entry| entry.name == name);
            let unit = known.ok_or_else(|| format!("there is no result {name:?} above"))?.unit;
            return Ok((Expression::Result(name), unit));
        }
        if word == "report" {
            let path = self.path()?;
            let unit = path.unit();
            return match path.is_many() {
                true => Err(format!("{path} means several: sum(..) or another makes them one")),
                false => Ok((Expression::Report(path), unit)),
            };
        }
        if word == "floor" {
            self.expect('(')?;
            let (inner, unit) = self.sum()?;
            self.expect(')')?;
            return Ok((Expression::Floor(Box::new(inner)), unit));
        }
        match self.figure_of(word)? {
            Some((_, row)) if row.name.ends_with('*') => Err(format!(
                "{:?} means several rows: mean(..) or another makes them one",
                row.name
            )),
            Some((figure, row)) => Ok((Expression::Figure(figure, row), figure.unit())),
            None if word == "calls" => {
                Err("calls are many: mean(calls PROCESS KIND) or another makes them one".to_owned())
            }
            None => Err(format!(
                "{word:?} is not known; there are measure, step, result, report, calls, floor, {} \
                 and {}",
                list(Summary::NAMES.map(|(name, _)| name)),
                list(Figure::names())
            )),
        }
    }

    /// `measure NAME`, `step LABEL`, or a figure of one of them; `None` if the word begins none.
    fn figure_of(&mut self, word: &str) -> Parsed<Option<(Figure, Row)>> {
        let kind = |word: &str| match word {
            "measure" => Some(RowKind::Measure),
            "step" => Some(RowKind::Step),
            _ => None,
        };
        if let Some(kind) = kind(word) {
            return Ok(Some((Figure::TIME, self.row(kind)?)));
        }
        let Some(figure) = Figure::named(word) else { return Ok(None) };
        self.expect('(')?;
        let inner = match self.next() {
            Some(Token::Word(word)) => kind(&word),
            _ => None,
        };
        let inner = inner.ok_or_else(|| format!("{word}(..) takes a measure or a step"))?;
        let row = self.row(inner)?;
        self.expect(')')?;
        Ok(Some((figure, row)))
    }

    fn row(&mut self, kind: RowKind) -> Parsed<Row> {
        let what = if kind == RowKind::Measure { "measure" } else { "step" };
        let name = self.name(what)?;
        let process = match self.passes_word("of") {
            true => Some(self.name("of")?),
            false => None,
        };
        Ok(Row { kind, name, process })
    }

    fn path(&mut self) -> Parsed<Path> {
        Ok(Path::new(&self.name("report")?))
    }

    fn name(&mut self, after: &str) -> Parsed<String> {
        match self.next() {
            Some(Token::Word(name) | Token::Quoted(name)) => Ok(name),
            _ => {
                Err(format!("a name is expected after {after:?}; one with spaces in quotes, '..'"))
            }
        }
    }

    fn summary(&mut self, summary: Summary) -> Parsed<(Expression, Unit)> {
        self.expect('(')?;
        let mut members = Vec::new();
        let mut unit = None;
        loop {
            let (member, own) = self.member()?;
            members.push(member);
            if *unit.get_or_insert(own) != own {
                return Err("sums up values of different units".to_owned());
            }
            if !self.passes(',') {
                break;
            }
        }
        self.expect(')')?;
        let unit = match summary {
            Summary::Count => Unit::default(),
            _ => unit.unwrap_or_default(),
        };
        Ok((Expression::Summary(summary, members), unit))
    }

    /// All rows of a name, the calls of a process, or a value.
    fn member(&mut self) -> Parsed<(Member, Unit)> {
        let start = self.at;
        if let Some(Token::Word(word)) = self.next() {
            if word == "calls" {
                let (process, call) = (self.name("calls")?, self.name("calls PROCESS")?);
                return match CALLS.contains(&call.as_str()) {
                    true => Ok((Member::Calls { process, call }, Unit::SECONDS)),
                    false => Err(format!("no call is {call:?}; there are {}", CALLS.join(", "))),
                };
            }
            let many = match word.as_str() {
                "report" => {
                    let path = self.path()?;
                    let unit = path.unit();
                    Some((Member::Report(path), unit))
                }
                word => self
                    .figure_of(word)?
                    .map(|(figure, row)| (Member::Rows(figure, row), figure.unit())),
            };
            if let Some((member, unit)) = many {
                if self.passes_word("from") {
                    let (least, own) = self.factor()?;
                    return match own == unit {
                        true => Ok((Member::From(Box::new(member), least), unit)),
                        false => Err("compares values of different units".to_owned()),
                    };
                }
                if matches!(self.peek(), Some(Token::Mark(')' | ','))) {
                    return Ok((member, unit));
                }
            }
        }
        self.at = start;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("is nested deeper than {DEPTH_MAX}"));
        }
        let (value, unit) = self.sum()?;
        self.depth -= 1;
        Ok((Member::Value(value), unit))
    }
}

fn list(names: impl IntoIterator<Item = &'static str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

impl Expression {
    /// Calls `visit` for each row that it names, and `visit_calls` for each process whose calls it
    /// sums up.
    pub fn each_name(&self, visit: &mut dyn FnMut(Named<'_>)) {
        match self {
            Expression::Number(..) | Expression::Result(_) | Expression::Report(_) => {}
            Expression::Negative(inner) | Expression::Floor(inner) => inner.each_name(visit),
            Expression::In(inner, other) => {
                visit(Named::Other(other));
                inner.each_name(visit);
            }
            Expression::Both(_, both) => both.iter().for_each(|one| one.each_name(visit)),
            Expression::Figure(_, row) => visit(Named::Row(row, Count::One)),
            Expression::Summary(_, members) => {
                members.iter().for_each(|member| member.each_name(visit));
            }
        }
    }
}

impl Member {
    fn each_name(&self, visit: &mut dyn FnMut(Named<'_>)) {
        match self {
            Member::Value(value) => value.each_name(visit),
            Member::Rows(_, row) => visit(Named::Row(row, Count::Any)),
            Member::Report(_) => {}
            Member::From(member, least) => {
                member.each_name(visit);
                least.each_name(visit);
            }
            Member::Calls { process, .. } => visit(Named::Process(process)),
        }
    }
}

/// How many rows a name may mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// One, whose figure is the value.
    One,
    /// Any number: they are summed up.
    Any,
}

/// What an expression names.
pub enum Named<'a> {
    /// Rows, and how many there may be.
    Row(&'a Row, Count),
    /// A process.
    Process(&'a str),
    /// Another run.
    Other(&'a str),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(text: &str) -> String {
        parse(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}")).1.name()
    }

    #[test]
    fn units_come_out_of_what_is_computed() {
        assert_eq!(unit("measure a / measure b"), "");
        assert_eq!(unit("measure a-b - 3s"), "s");
        assert_eq!(unit("bytes_read(measure 'cold read' of p) / measure c"), "bytes/s");
        assert_eq!(unit("1 / mean(measure a, 30s + step b)"), "1/s");
        assert_eq!(unit("count(measure 'pass *')"), "");
        assert_eq!(unit("p99(calls du stat) * 2"), "s");
        assert_eq!(unit("-(4K * 0.5) * measure a"), "bytes s");
        assert_eq!(unit("sum(report 'steps/a/calls/*/elapsed_ns' from 3ms)"), "s");
        assert_eq!(unit("report 'drives/1/media_bytes_per_second'"), "bytes/s");
        assert_eq!(unit("1M / (report 'drives/1/bytes') in other"), "");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let cases = [
            ("", "ends where a value is expected"),
            ("measure", "a name is expected after"),
            ("measure a +", "ends where"),
            ("measure a + 3", "adds s and a plain number"),
            ("measure 'a", "a quote is not closed"),
            ("measure a measure b", "\"measure\" is not expected there"),
            ("measure a b", "\"b\" is not expected there; a name with blanks is in single"),
            ("sum('cat *')", "'cat *' is not expected there: a row is named as measure 'cat *'"),
            ("calls p read", "calls are many"),
            ("mean(calls p fly)", "no call is \"fly\""),
            ("measure 'a*'", "\"a*\" means several rows"),
            ("reads(3)", "reads(..) takes a measure or a step"),
            ("tan(3)", "\"tan\" is not known; there are measure, step"),
            ("(3", "')' is expected in place of the end"),
            ("3 lots", "\"lots\" is not expected there"),
            ("3lots", "\"3lots\" is no number, no time"),
            ("1.2.3", "\"1.2.3\" is no number"),
            ("mean(measure a, 3)", "sums up values of different units"),
            ("result a", "there is no result \"a\" above"),
            ("report 'processes/*/ended_ns'", "'processes/*/ended_ns' means several: sum(..)"),
            ("count(measure 'a*' from 3)", "compares values of different units"),
            ("measure a in", "a name is expected after \"in\""),
            ("measure a in b in c", "\"in\" is not expected there"),
            ("3 $ 4", "'$' is not expected there"),
        ];
        for (text, start) in cases {
            let error = parse(text, &[]).unwrap_err();
            assert!(error.starts_with(start), "{text}: {error}");
        }
        let deep = |open: &str| parse(&open.repeat(500), &[]).unwrap_err();
        assert!(deep("(").starts_with("is nested deeper"));
        assert!(deep("-").starts_with("is nested deeper"));
        assert!(deep("mean(").starts_with("is nested deeper"));
        assert!(parse(&"1".repeat(5000), &[]).unwrap_err().contains("at most 4096"));
    }
}
