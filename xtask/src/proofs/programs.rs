//! Real programs on a mount, each judged by its own checks.

// tidy: width because scripts are read as their shell has them

use super::shell::{Outcome, Script, run};
use super::{Proofs, Sharing};

const SCRIPTS: &[Script] = &[
    Script {
        name: "git: clone, checkout, commit, gc, fsck",
        needs: &["git"],
        size: "2G",
        text: "
            git init -q $M/origin; cd $M/origin
            git config user.email a@example.org; git config user.name A
            for i in $(seq 400); do mkdir -p d$((i % 20)); seq $i $((i * 7)) > d$((i % 20))/f$i; done
            git add .; git commit -qm one; git branch old
            for i in $(seq 1 3 400); do echo change >> d$((i % 20))/f$i; done
            git rm -qf d7/f7; git commit -qam two
            git clone -q --no-hardlinks $M/origin $M/clone; cd $M/clone
            git checkout -q origin/old; git status --porcelain | (! grep .)
            git checkout -q origin/HEAD; git gc -q --aggressive --prune=now
            git fsck --full --strict; git status --porcelain | (! grep .)
            diff -r --exclude=.git $M/origin $M/clone",
    },
    Script {
        name: "sqlite: fill, kill, restart, in both journal modes",
        needs: &["sqlite3"],
        size: "512M",
        text: "
            for mode in wal delete; do
              db=$M/$mode.db
              sqlite3 $db \"pragma journal_mode=$mode; create table t(id integer primary key, b blob)\"
              (i=0; while :; do i=$((i + 1)); echo \"insert into t(b) values(randomblob(3000));\"
                echo \"select 'in', max(id) from t;\"; done | sqlite3 $db > $W/$mode.out) &
              load=$!
              sleep 3; pkill -KILL -P $load || true; kill -KILL $load 2> /dev/null || true
              wait $load 2> /dev/null || true
              told=$(grep -c in $W/$mode.out || true)
              [ \"$(sqlite3 $db 'pragma integrity_check')\" = ok ]
              [ $(sqlite3 $db 'select count(*) from t') -ge $((told - 1)) ]
              [ $told -gt 0 ]
            done",
    },
    Script {
        name: "PostgreSQL: start, fill, crash, restart",
        needs: &["setpriv"],
        size: "2G",
        text: "
            bin=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | tail -1) || true
            [ -x \"$bin/initdb\" ] || { echo 'no PostgreSQL here' >&2; exit 77; }
            mkdir $M/data; chown 65534:65534 $M/data
            as() { setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=$M/data \"$@\"; }
            cd $M/data
            as $bin/initdb -D $M/data/db -A trust -U p > $W/initdb 2>&1
            start() { as $bin/pg_ctl -D $M/data/db -w -l $M/data/log -o \"-k $M/data -h ''\" start > /dev/null; }
            sql() { as $bin/psql -h $M/data -U p -d postgres -qAt -c \"$1\"; }
            start; sql 'create table t(id serial primary key, b text)'
            for i in $(seq 20); do sql \"insert into t(b) select repeat('x', 900) from generate_series(1, 500)\"; done
            before=$(sql 'select count(*) from t')
            (sql \"begin; insert into t(b) select repeat('y', 900) from generate_series(1, 50000); select pg_sleep(60); commit\" > /dev/null 2>&1 || true) &
            sleep 4
            kill -KILL $(head -1 $M/data/db/postmaster.pid); wait
            sleep 6; rm -f $M/data/db/postmaster.pid
            start || { tail -3 $M/data/log >&2; exit 1; }
            [ \"$(sql 'select count(*) from t')\" = \"$before\" ]
            sql 'reindex table t'; sql 'vacuum full t'; [ \"$(sql 'select count(*) from t')\" = \"$before\" ]
            as $bin/pg_ctl -D $M/data/db -m fast -w stop > /dev/null
            as $bin/pg_checksums --version > /dev/null",
    },
    Script {
        name: "make and cc: a build of 60 files, twice",
        needs: &["make", "cc"],
        size: "512M",
        text: "
            cd $M
            for i in $(seq 60); do echo \"int f$i(int x) { return x + $i; }\" > f$i.c; done
            (for i in $(seq 60); do echo \"int f$i(int);\"; done
             echo 'int main(void) { int s = 0;'
             for i in $(seq 60); do echo \"s += f$i(s & 1);\"; done; echo 'return s < 0; }') > main.c
            printf 'all: p\\np: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n\\tcc -o $@ $^\\n' > Makefile
            make -s -j4; ./p; [ \"$(make)\" = \"make: Nothing to be done for 'all'.\" ]
            touch f7.c; make > $W/again; grep -q f7 $W/again",
    },
    Script {
        name: "rsync: there and back, with attributes, links and holes",
        needs: &["rsync", "setfattr", "setfacl"],
        size: "1G",
        text: "
            mkdir $W/from; cp -a /usr/share/doc/ $W/from/doc 2> /dev/null || true
            cd $W/from; truncate -s 5M hole; echo x >> hole; ln hole link; ln -s hole soft; mkfifo pipe
            setfattr -n user.a -v b hole; setfacl -m u:1001:rw hole
            rsync -aHAXS $W/from/ $M/there/; rsync -aHAXS --delete $M/there/ $W/back/
            rsync -aHAXcn --itemize-changes --delete $W/from/ $M/there/ | (! grep .)
            rsync -aHAXcn --itemize-changes --delete $W/from/ $W/back/ | (! grep .)
            [ $(stat -c %i $M/there/hole) = $(stat -c %i $M/there/link) ]",
    },
    Script {
        name: "overlayfs above it: copy up, whiteouts, opaque folders, rename",
        needs: &["getfattr"],
        size: "512M",
        text: "
            mkdir $M/lower $M/upper $M/work $W/all
            mkdir -p $M/lower/a/b; echo 1 > $M/lower/a/f; echo 2 > $M/lower/a/b/g; echo 3 > $M/lower/gone
            mount -t overlay overlay -o lowerdir=$M/lower,upperdir=$M/upper,workdir=$M/work $W/all
            trap 'umount -l $W/all' EXIT
            rm $W/all/gone; echo more >> $W/all/a/f; rm -r $W/all/a/b; mkdir $W/all/a/b; echo 5 > $W/all/a/b/h
            mv $W/all/a/f $W/all/a/f2
            [ ! -e $W/all/gone ]; [ \"$(ls $W/all/a/b)\" = h ]; [ \"$(cat $W/all/a/f2)\" = \"$(printf '1\\nmore')\" ]
            [ \"$(stat -c '%F %t:%T' $M/upper/gone)\" = 'character special file 0:0' ]
            getfattr -h -n trusted.overlay.opaque $M/upper/a/b > /dev/null
            umount $W/all; trap - EXIT
            mount -t overlay overlay -o lowerdir=$M/lower,upperdir=$M/upper,workdir=$M/work $W/all
            trap 'umount -l $W/all' EXIT
            [ ! -e $W/all/gone ]; [ \"$(ls $W/all/a/b)\" = h ]",
    },
    Script {
        name: "a root to live in: busybox in namespaces of its own",
        needs: &["busybox", "unshare", "chroot"],
        size: "256M",
        text: "
            mkdir -p $M/base/{bin,proc,tmp,dev,etc}
            cp $(command -v busybox) $M/base/bin/busybox
            ldd $M/base/bin/busybox 2> /dev/null | grep -o '/[^ ]*' | while read -r lib; do
              mkdir -p $M/base$(dirname $lib); cp $lib $M/base$lib; done
            unshare --mount --pid --fork --uts --ipc chroot $M/base /bin/busybox sh -euc '
              /bin/busybox --install -s /bin; export PATH=/bin; mount -t proc proc /proc
              hostname inside; echo ok > /etc/done; tar cf /tmp/t.tar /bin; mkdir /tmp/x
              tar xf /tmp/t.tar -C /tmp/x; find /tmp/x | sort | md5sum > /tmp/sum; ps | grep -q busybox
              adduser -D -H u 2> /dev/null || true; rm -r /tmp/x; umount /proc'
            [ \"$(cat $M/base/etc/done)\" = ok ]",
    },
    Script {
        name: "five layers, unpacked one over the other",
        needs: &["tar"],
        size: "2G",
        text: "
            mkdir $W/tree; cp -a /usr/share/doc $W/tree/doc 2> /dev/null || true
            for layer in 1 2 3 4 5; do
              mkdir -p $W/tree/l$layer; for i in $(seq 300); do echo $layer $i > $W/tree/l$layer/f$i; done
              for i in $(seq 50); do echo $layer > $W/tree/shared$i; done
              tar -C $W/tree --numeric-owner --xattrs -cf $W/layer$layer.tar .
            done
            mkdir $M/base $W/expected
            for layer in 1 2 3 4 5; do
              for to in $M/base $W/expected; do
                tar -C $to --numeric-owner --xattrs -xpf $W/layer$layer.tar; rm -f $to/shared$layer
              done
            done
            tar -C $M/base --numeric-owner --mtime=@0 --sort=name -c . | md5sum > $W/one
            tar -C $W/expected --numeric-owner --mtime=@0 --sort=name -c . | md5sum > $W/two
            cmp $W/one $W/two",
    },
];

/// Runs each of them, for all users.
///
/// # Errors
/// Those that failed.
pub fn prove(proofs: &Proofs) -> Result<(), String> {
    let mut failures = Vec::new();
    for script in SCRIPTS {
        match run(proofs, &proofs.subject(Sharing::AllUsers, ""), script) {
            Ok(Outcome::Done(seconds)) => println!("  {}: {seconds:.1} s", script.name),
            Ok(Outcome::Skipped(missing)) => println!("  {}: skipped, no {missing}", script.name),
            Err(error) => {
                println!("  {}: {error}", script.name);
                failures.push(script.name);
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}
