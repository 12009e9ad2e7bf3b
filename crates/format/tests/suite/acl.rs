//! Access lists: both forms of lists that are well formed, and refusal of all others.
use extant_format::acl::{from_disk, to_disk};
use proptest::collection::vec;
use proptest::prelude::*;

fn attribute_form(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0];
    for (tag, permissions, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&permissions.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

const NO_ID: u32 = u32::MAX;

fn lists() -> impl Strategy<Value = Vec<(u16, u16, u32)>> {
    let named = || vec((0..8_u16, 0..NO_ID), 0..5);
    (named(), named(), vec(0..8_u16, 4), any::<bool>()).prop_map(
        |(users, groups, permissions, wants_mask)| {
            let has_mask = wants_mask || !users.is_empty() || !groups.is_empty();
            let mut list = vec![(0x01, permissions[0], NO_ID)];
            list.extend(users.into_iter().map(|(permissions, id)| (0x02, permissions, id)));
            list.push((0x04, permissions[1], NO_ID));
            list.extend(groups.into_iter().map(|(permissions, id)| (0x08, permissions, id)));
            list.extend(has_mask.then_some((0x10, permissions[2], NO_ID)));
            list.push((0x20, permissions[3], NO_ID));
            list
        },
    )
}

proptest! {
    #[test]
    fn both_forms_say_the_same(list in lists()) {
        let value = attribute_form(&list);
        let disk = to_disk(&value).unwrap();
        let named = list.iter().filter(|(tag, ..)| [2, 8].contains(tag)).count();
        prop_assert_eq!(disk.len(), 4 + 4 * list.len() + 4 * named);
        prop_assert_eq!(from_disk(&disk), Some(value));
    }

    #[test]
    fn a_list_with_an_entry_too_few_or_twice_is_refused(
        list in lists(),
        at in any::<prop::sample::Index>(),
    ) {
        let at = at.index(list.len());
        let (tag, ..) = list[at];
        let is_needed = match tag {
            0x01 | 0x04 | 0x20 => true,
            0x10 => list.iter().any(|(tag, ..)| [2, 8].contains(tag)),
            _ => false,
        };
        let mut without = list.clone();
        without.remove(at);
        prop_assert_eq!(to_disk(&attribute_form(&without)).is_none(), is_needed);
        let mut twice = list.clone();
        twice.insert(at, list[at]);
        prop_assert_eq!(to_disk(&attribute_form(&twice)).is_none(), ![2, 8].contains(&tag));
    }

    #[test]
    fn random_bytes_do_no_harm(mut bytes in vec(any::<u8>(), 0..60), version in 0..4_u8) {
        for form in [from_disk, to_disk] {
            let _ = form(&bytes);
        }
        if bytes.len() >= 4 {
            bytes[..4].copy_from_slice(&[version, 0, 0, 0]);
        }
        if let Some(value) = from_disk(&bytes) {
            prop_assert_eq!(to_disk(&value), Some(bytes.clone()));
        }
        let _ = to_disk(&bytes);
    }
}

#[test]
fn the_disk_form_is_as_the_kernel_writes_it() {
    // setfacl -m u:1000:rw on a file of mode 0640.
    let value = attribute_form(&[
        (1, 6, NO_ID),
        (2, 6, 1000),
        (4, 4, NO_ID),
        (0x10, 6, NO_ID),
        (0x20, 0, NO_ID),
    ]);
    let disk = [
        1, 0, 0, 0, 1, 0, 6, 0, 2, 0, 6, 0, 0xe8, 3, 0, 0, 4, 0, 4, 0, 0x10, 0, 6, 0, 0x20, 0, 0, 0,
    ];
    assert_eq!(to_disk(&value).as_deref(), Some(disk.as_slice()));
}

#[test]
fn what_is_not_a_list_is_refused() {
    let good = [(1, 6, NO_ID), (4, 4, NO_ID), (0x20, 0, NO_ID)];
    assert!(to_disk(&attribute_form(&good)).is_some());
    // The id of those who are not named is not looked at, and is not kept.
    assert_eq!(
        to_disk(&attribute_form(&[(1, 6, 7), good[1], good[2]])),
        to_disk(&attribute_form(&good))
    );
    for bad in [
        &[][..],
        &[(1, 8, NO_ID), good[1], good[2]],
        &[(3, 6, NO_ID), good[1], good[2]],
        &[good[0], (2, 6, NO_ID), good[1], (0x10, 6, NO_ID), good[2]],
        &[good[1], good[0], good[2]],
    ] {
        assert_eq!(to_disk(&attribute_form(bad)), None, "{bad:?}");
    }
    let mut value = attribute_form(&good);
    value.pop();
    assert_eq!(to_disk(&value), None);
    value[0] = 1;
    assert_eq!(to_disk(&value), None);
    assert_eq!(from_disk(&[]), None);
}
