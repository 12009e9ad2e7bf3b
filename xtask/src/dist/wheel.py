"""Makes the wheel that is handed out of the one that maturin made.

    wheel.py FROM DOCUMENTS TAG EPOCH FOLDER

The files of FROM, with those in DOCUMENTS as its licences and its list of parts, named for TAG, in
one order, with one time and one mode: nothing in it says where or when it was made. Prints its path.
"""

import base64
import hashlib
import pathlib
import sys
import time
import zipfile

LISTS = ".spdx.json"


def contents(source, documents, tag):
    """The files by their names, without the list of them; and the folder of metadata."""
    with zipfile.ZipFile(source) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}
    (about,) = {name.split("/")[0] for name in files if name.split("/")[0].endswith(".dist-info")}
    # maturin's list of parts names the folders of the machine.
    for name in list(files):
        if name == f"{about}/RECORD" or name.startswith(f"{about}/sboms/"):
            del files[name]
    head, _, text = files[f"{about}/METADATA"].decode().partition("\n\n")
    for path in sorted(documents.iterdir()):
        if path.name.endswith(LISTS):
            files[f"{about}/sboms/{path.name}"] = path.read_bytes()
        else:
            files[f"{about}/licenses/{path.name}"] = path.read_bytes()
            head += f"\nLicense-File: {path.name}"
    files[f"{about}/METADATA"] = f"{head}\n\n{text}".encode()
    lines = files[f"{about}/WHEEL"].decode().splitlines()
    tagged = [f"Tag: {tag}" if line.startswith("Tag: ") else line for line in lines]
    if tagged.count(f"Tag: {tag}") != 1:
        sys.exit(f"{source}: not one tag: {lines}")
    files[f"{about}/WHEEL"] = ("\n".join(tagged) + "\n").encode()
    return files, about


def record(files, about):
    """The list of files, as the format of wheels wants it."""
    rows = []
    for name, content in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
        rows.append(f"{name},sha256={digest.decode()},{len(content)}\n")
    return "".join(rows + [f"{about}/RECORD,,\n"]).encode()


def main(source, documents, tag, epoch, folder):
    files, about = contents(source, pathlib.Path(documents), tag)
    files[f"{about}/RECORD"] = record(files, about)
    # The format of archives knows no time before 1980.
    moment = time.gmtime(max(int(epoch), 315532800))[:6]
    path = pathlib.Path(folder) / f"{about.removesuffix('.dist-info')}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        # Metadata comes last, as the format recommends.
        for name in sorted(files, key=lambda name: (name.startswith(about), name)):
            entry = zipfile.ZipInfo(name, moment)
            entry.create_system = 3
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED, 9)
    print(path)


main(*sys.argv[1:])
