#!/usr/bin/env python3
"""Builds the archive that `setup-envtest` installs, and the index that names it.

    cargo build --release -p homeostat-cli
    python scripts/envtest_archive.py --binary target/release/homeostat --output target/envtest --url https://example.org/envtest
    setup-envtest sideload 1.36.4 < target/envtest/envtest-v1.36.4-linux-amd64.tar.gz
    setup-envtest use 1.36.4 --index https://example.org/envtest/envtest-releases.yaml

Other archives that the index names stay in it, so that one folder can have those of several platforms. kubectl is taken from PATH.
The program is in the archive once: `etcd` is a script that calls it, because setup-envtest skips links.
"""
import argparse
import gzip
import hashlib
import io
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = "controller-tools/envtest"
ETCD = b"""#!/bin/sh
# Homeostat in place of etcd: the program beside this script, under another name.
HOMEOSTAT_RUN_AS=etcd exec "$(dirname "$0")/kube-apiserver" "$@"
"""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Adds a program."""
    info = tarfile.TarInfo(f"{FOLDER}/{name}")
    info.size, info.mode = len(content), 0o755
    archive.addfile(info, io.BytesIO(content))


def kubernetes_version(binary: pathlib.Path) -> str:
    """Returns the version of Kubernetes whose API the program serves."""
    said = subprocess.run([binary, "--version"], env={"HOMEOSTAT_RUN_AS": "kube-apiserver"}, capture_output=True,
                          text=True, check=True)
    return re.search(r"v\d+\.\d+\.\d+", said.stdout).group(0)


def write_index(path: pathlib.Path, version: str, archive: pathlib.Path, url: str) -> None:
    """Writes the index with this archive and those that it had."""
    entries = {}
    if path.exists():
        pattern = r"^  (v[\d.]+):$|^    (\S+):\n      hash: (\S+)\n      selfLink: (\S+)$"
        release = ""
        for found in re.finditer(pattern, path.read_text(), re.MULTILINE):
            release = found.group(1) or release
            if found.group(2):
                entries[release, found.group(2)] = (found.group(3), found.group(4))
    digest = hashlib.sha512(archive.read_bytes()).hexdigest()
    entries[version, archive.name] = (digest, f"{url.rstrip('/')}/{archive.name}")
    lines = ["releases:"]
    for release in sorted({release for release, _ in entries}):
        lines.append(f"  {release}:")
        for (_, name), (digest, link) in sorted(item for item in entries.items() if item[0][0] == release):
            lines += [f"    {name}:", f"      hash: {digest}", f"      selfLink: {link}"]
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target" / "release" / "homeostat")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "target" / "envtest")
    parser.add_argument("--url", default="https://example.org/envtest", help="where the archives will be found")
    arguments = parser.parse_args()
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        sys.exit("kubectl is not on PATH: setup-envtest refuses an archive without it")
    version = kubernetes_version(arguments.binary.resolve())
    system, machine = platform.system().lower(), ARCHITECTURES.get(platform.machine(), platform.machine())
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / f"envtest-{version}-{system}-{machine}.tar.gz"
    with open(path, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            add(archive, "etcd", ETCD)
            add(archive, "kube-apiserver", arguments.binary.read_bytes())
            add(archive, "kubectl", pathlib.Path(kubectl).resolve().read_bytes())
    write_index(arguments.output / "envtest-releases.yaml", version, path, arguments.url)
    print(path)


if __name__ == "__main__":
    main()
