//! Our own rules.
use crate::rules::fixture::{attribute, build, extant, rights, source, told};
use extant_testkit::oracle::{Access, can_mount, debugfs, mount_loop};
use extant_testkit::scratch::Scratch;
use std::fs;

const RULES: &str = "\
# all of it, then what is special
**                owner=0:0
/                 owner=0:0 mode=0755
/usr/bin/su       mode=4755
/usr/bin/ping     capability=cap_net_raw+ep
/srv/**  type=d   mode=2775 group=33
*.key             mode=0400 owner=7
/etc/motd         label=system_u:object_r:etc_t:s0 flags=iA
\"/x y\"            mode=0600
/nothing/here     mode=0600
/usr/sbin         capability=cap_kill+p
";

#[test]
fn rules_give_what_they_say_and_name_what_is_not_there() {
    let folder = Scratch::new("rules");
    source(&folder);
    fs::write(folder.join("rules"), RULES).unwrap();
    let said = build(&folder, "--rules rules");
    assert!(said.contains("rules:10: /nothing/here is nothing in the image"), "{said}");
    assert_eq!(said.matches("nothing in the image").count(), 1, "{said}");
    assert!(said.contains("/usr/sbin is no regular file"), "{said}");
    let entries = told(&folder, "disk.img");
    assert_eq!(rights(&entries, "/usr/bin/su"), (0, 0, 0o4755));
    assert_eq!(rights(&entries, "/srv/a/b"), (0, 33, 0o2775));
    assert_eq!(rights(&entries, "/etc/keys/a.key"), (7, 0, 0o400));
    assert_eq!(rights(&entries, "/x y"), (0, 0, 0o600));
    assert_eq!(rights(&entries, "/usr/sbin").2, 0o777, "a link keeps its mode");
    let label = attribute(&entries, "/etc/motd", "security.selinux");
    assert_eq!(label.as_deref(), Some("system_u:object_r:etc_t:s0\0"));
    assert!(attribute(&entries, "/usr/bin/ping", "security.capability").is_some());
    let flags = debugfs(&folder.join("disk.img"), "stat /etc/motd").unwrap();
    assert!(flags.contains("Flags: 0x80090"), "immutable, no access times, extents: {flags}");
    if !can_mount() {
        return;
    }
    let mounted = mount_loop(&folder.join("disk.img"), Access::ReadWrite, "").unwrap();
    let refused = fs::write(mounted.path().join("etc/motd"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(1), "the kernel keeps what is immutable");
    let ping = mounted.path().join("usr/bin/ping");
    let told = extant_testkit::command::run("getcap", &[ping]).unwrap();
    assert!(String::from_utf8_lossy(&told.stdout).contains("cap_net_raw=ep"));
}

#[test]
fn rules_make_the_same_image_as_a_tree_that_has_it() {
    let folder = Scratch::new("rules");
    let tree = source(&folder);
    fs::write(folder.join("rules"), "/etc/motd mode=0600\n").unwrap();
    build(&folder, "--rules rules");
    fs::rename(folder.join("disk.img"), folder.join("ruled.img")).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(tree.join("etc/motd"), fs::Permissions::from_mode(0o600)).unwrap();
    build(&folder, "");
    let images = ["disk.img", "ruled.img"].map(|image| fs::read(folder.join(image)).unwrap());
    assert!(images[0] == images[1], "the images differ");
}

#[test]
fn what_is_not_understood_is_refused_by_its_line() {
    let folder = Scratch::new("rules");
    source(&folder);
    let cases = [
        ("/a mode=9", "rules:1: the mode is not octal"),
        ("\n/a mode=10000", "rules:2: the mode is not octal"),
        ("/a owner=root", "the user is not a number"),
        ("/a owner=4294967295:0", "the user is not a number"),
        ("/a", "gives nothing"),
        ("/a type=f", "gives nothing"),
        ("/a colour=red", "none of mode, owner"),
        ("/a mode", "has no \"=\""),
        ("/a capability=cap_fly+ep", "is no capability"),
        ("/a flags=Z", "a flag is none"),
        ("/a type=x", "a type is one of"),
        ("\"/a mode=0", "quotation mark"),
        ("[ mode=0", "rules:1: "),
        ("\u{1b}[31m mode=x", "\\e"),
    ];
    for (text, part) in cases {
        fs::write(folder.join("rules"), text).unwrap();
        let output = extant(&folder, "build --rules rules source disk.img");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}: {said}");
        let shown = if part == "\\e" { !said.contains('\u{1b}') } else { said.contains(part) };
        assert!(shown, "{text}: {said}");
        assert!(!folder.join("disk.img").exists());
    }
    let output = extant(&folder, "build --rules none source disk.img");
    assert!(String::from_utf8_lossy(&output.stderr).contains("none: No such file"));
}
