//! Access lists in the words of calls: [`extant_format::acl`] knows what they permit.
use crate::error::{Error, ErrorKind, Result};
use extant_format::acl::{ATTRIBUTE_VERSION, AccessList};

fn wrong() -> Error {
    ErrorKind::InvalidArgument("not an access control list").into()
}

/// Reads the form of `getxattr`; `None` for one without entries, which means no list. Whether they
/// make a list is another question: see [`check`].
///
/// # Errors
/// `OperationUnsupported` for another version, `InvalidArgument` for what has not this form.
pub(crate) fn parse(value: &[u8]) -> Result<Option<AccessList>> {
    let version = value.first_chunk::<4>().ok_or_else(wrong)?;
    if u32::from_le_bytes(*version) != ATTRIBUTE_VERSION {
        return Err(ErrorKind::OperationUnsupported("a version of access lists").into());
    }
    let list = AccessList::from_attribute(value).ok_or_else(wrong)?;
    Ok((!list.entries.is_empty()).then_some(list))
}

/// Fails unless a list is well formed.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check(list: &AccessList) -> Result<()> {
    if list.is_well_formed() { Ok(()) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_format::acl::{Entry, Tag};

    #[test]
    fn a_list_is_what_its_value_says() {
        let entry = |(tag, permissions)| Entry { tag, permissions };
        let minimal = [(Tag::Owner, 6), (Tag::OwningGroup, 4), (Tag::Other, 0)].map(entry);
        let list = AccessList { entries: minimal.to_vec() };
        assert_eq!(parse(&list.to_attribute()).expect("well formed"), Some(list.clone()));
        assert_eq!(parse(&[2, 0, 0, 0]).expect("none"), None);
        for wrong in [&[][..], &[2, 0, 0], &[2, 0, 0, 0, 1], &[2, 0, 0, 0, 9, 0, 7, 0, 0, 0, 0, 0]]
        {
            assert_eq!(parse(wrong).expect_err("no list").errno(), 22, "{wrong:?}");
        }
        assert_eq!(parse(&[1, 0, 0, 0]).expect_err("a version").errno(), 95);
        let incomplete = AccessList { entries: minimal[..2].to_vec() };
        assert!(check(&list).is_ok() && check(&incomplete).is_err());
    }
}
