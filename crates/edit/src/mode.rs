//! Permissions as chmod(1) reads them: `644`, `u=rwX,go-w`.
use extant_format::inode::{FileType, mode};

/// What is taken from the permissions of what is made, as in most shells: an image must not depend
/// on the shell that makes it.
pub const UMASK: u16 = 0o022;

/// A change of permissions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mode(Kind);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// These bits; of a directory, set-user-ID and set-group-ID stay unless they are named.
    Bits {
        bits: u16,
        digits: usize,
    },
    Clauses(Vec<Clause>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operator {
    Add,
    Remove,
    Set,
}

/// What a clause gives or takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rights {
    /// Letters: bits as for all three, and whether `X` is among them.
    Letters { bits: u16, conditional: bool },
    /// What the owner, the group or others have: by how many bits to shift.
    Copied(u16),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Clause {
    /// Whose bits: a mask of the twelve.
    whose: u16,
    /// Whether nobody was named: the umask keeps bits away.
    implied: bool,
    operator: Operator,
    rights: Rights,
}

const USER: u16 = 0o4700;
const GROUP: u16 = 0o2070;
const OTHER: u16 = 0o1007;

impl Mode {
    /// Reads an octal number or clauses.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Mode, String> {
        let wrong = || format!("{text:?} is no mode: 644, u+x, go=rX");
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let bits = u16::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
            let bits = bits.ok_or_else(wrong)?;
            return Ok(Mode(Kind::Bits { bits, digits: text.len() }));
        }
        let mut clauses = Vec::new();
        for part in text.split(',') {
            clauses.extend(clauses_of(part).ok_or_else(wrong)?);
        }
        Ok(Mode(Kind::Clauses(clauses)))
    }

    /// The permissions that an object with these gets.
    pub fn applied(&self, before: u16, file_type: FileType) -> u16 {
        let is_directory = file_type == FileType::Directory;
        match &self.0 {
            // As chmod(1) does: only a number of five digits takes them from a directory.
            Kind::Bits { bits, digits } if is_directory && *digits < 5 => bits | before & 0o6000,
            Kind::Bits { bits, .. } => *bits,
            Kind::Clauses(clauses) => {
                let before = before & 0o7777;
                clauses.iter().fold(before, |mode, clause| clause.applied(mode, file_type))
            }
        }
    }
}

/// The clauses of a part between commas: `u+x-w`.
fn clauses_of(part: &str) -> Option<Vec<Clause>> {
    let end = part.find(['+', '-', '='])?;
    let (who, mut rest) = part.split_at(end);
    let mut whose = 0;
    for letter in who.chars() {
        whose |= match letter {
            'u' => USER,
            'g' => GROUP,
            'o' => OTHER,
            'a' => 0o7777,
            _ => return None,
        };
    }
    let implied = who.is_empty();
    let whose = if implied { 0o7777 } else { whose };
    let mut clauses = Vec::new();
    while let Some(sign) = rest.chars().next() {
        let operator = match sign {
            '+' => Operator::Add,
            '-' => Operator::Remove,
            '=' => Operator::Set,
            _ => return None,
        };
        let after = &rest[1..];
        let end = after.find(['+', '-', '=']).unwrap_or(after.len());
        let rights = rights_of(&after[..end])?;
        clauses.push(Clause { whose, implied, operator, rights });
        rest = &after[end..];
    }
    Some(clauses)
}

fn rights_of(letters: &str) -> Option<Rights> {
    let copied = match letters {
        "u" => Some(6),
        "g" => Some(3),
        "o" => Some(0),
        _ => None,
    };
    if let Some(shift) = copied {
        return Some(Rights::Copied(shift));
    }
    let (mut bits, mut conditional) = (0, false);
    for letter in letters.chars() {
        match letter {
            'r' => bits |= 0o444,
            'w' => bits |= 0o222,
            'x' => bits |= 0o111,
            's' => bits |= mode::SET_USER_ID | mode::SET_GROUP_ID,
            't' => bits |= mode::STICKY,
            'X' => conditional = true,
            _ => return None,
        }
    }
    Some(Rights::Letters { bits, conditional })
}

impl Clause {
    fn applied(&self, mode: u16, file_type: FileType) -> u16 {
        let is_directory = file_type == FileType::Directory;
        let bits = match self.rights {
            Rights::Copied(shift) => (mode >> shift & 0o7) * 0o111,
            Rights::Letters { bits, conditional } => {
                let executes = conditional && (is_directory || mode & 0o111 != 0);
                if executes { bits | 0o111 } else { bits }
            }
        };
        let mut bits = bits & self.whose;
        if self.implied {
            bits &= !UMASK;
        }
        match self.operator {
            Operator::Add => mode | bits,
            Operator::Remove => mode & !bits,
            Operator::Set => {
                // What a directory has of these stays unless it is named.
                let kept = if is_directory { 0o6000 } else { 0 };
                mode & !(self.whose & !kept) | bits
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_those_of_chmod() {
        // Each of these was compared with chmod of coreutils 9.1, umask 022.
        for (text, before, file, directory) in [
            ("644", 0o4755, 0o644, 0o4644),
            ("00755", 0o2777, 0o755, 0o755),
            ("u+x", 0o644, 0o744, 0o744),
            ("+w", 0o444, 0o644, 0o644),
            ("a+w", 0o444, 0o666, 0o666),
            ("go=rX", 0o700, 0o755, 0o755),
            ("go=rX", 0o600, 0o644, 0o655),
            ("u=g,o-r+x", 0o654, 0o551, 0o551),
            ("ug+s,+t", 0o755, 0o7755, 0o7755),
            ("=", 0o6777, 0, 0o6000),
            ("=r", 0o6777, 0o444, 0o6444),
            ("g=", 0o2775, 0o705, 0o2705),
            ("u-s", 0o6755, 0o2755, 0o2755),
            ("g=u-w", 0o640, 0o640, 0o640),
        ] {
            let mode = Mode::parse(text).unwrap();
            assert_eq!(mode.applied(before, FileType::Regular), file, "{text} of {before:o}");
            let got = mode.applied(before, FileType::Directory);
            assert_eq!(got, directory, "{text} of {before:o}");
        }
        for text in ["", "8", "10000000", "u", "u+y", "z+x", "u+x,", "77777"] {
            assert!(Mode::parse(text).is_err(), "{text}");
        }
    }
}
