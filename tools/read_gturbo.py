#!/usr/bin/env python3
"""A second reader of .gturbo installs, written from docs/format-gturbo.md alone.

Plain Python 3, no packages.

  read_gturbo.py X.gturbo                      check every digest, layout and checksum
  read_gturbo.py X.gturbo --tensor NAME        print a tensor's values, one row a line
  read_gturbo.py X.gturbo --expert L,E,gate    the same for a matrix of a routed expert; mtp.L,E,…
                                               for the draft
  ... --f32 FILE                               write the values as little-endian f32 instead

Exit status: 0 the install is sound, 1 it is not, 2 wrong command line.
"""
import argparse
import hashlib
import json
import os
import re
import stat
import struct
import sys

PAGE = 16384
DTYPES = ["F32", "F16", "BF16", "Q4", "Q8", "I64"]
BITS = {"Q4": 4, "Q8": 8}
SIZE = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8}
REL = r"[a-z0-9_-][a-z0-9._-]*(/[a-z0-9_-][a-z0-9._-]*)*"


class Bad(Exception):
    pass


def need(ok, what):
    if not ok:
        raise Bad(what)


def up(x, a):
    return (x + a - 1) // a * a


def crc_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


CRC = crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ CRC[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def no_doubles(pairs):
    keys = [k for k, _ in pairs]
    need(len(keys) == len(set(keys)), "a JSON object has a key twice")
    return dict(pairs)


def keys_are(obj, required, optional=()):
    need(isinstance(obj, dict), "not a JSON object")
    need(set(required) <= set(obj) <= set(required) | set(optional), "keys are %s" % sorted(obj))


def parts_of(dtype, shape):
    """Sizes of words, scales and biases."""
    count = 1
    for n in shape:
        need(n >= 1, "a dimension is 0")
        count *= n
    if dtype in BITS:
        need(len(shape) >= 2 and shape[-1] % 64 == 0, "an affine tensor has a bad shape")
        count = (count // shape[-1] + 31) // 32 * 32 * shape[-1]
        return [count * BITS[dtype] // 8, count // 64 * 2, count // 64 * 2]
    return [count * SIZE[dtype], 0, 0]


class Install:
    def __init__(self, path):
        self.path = os.path.realpath(path)
        raw = self.read("manifest.json", limit=16 << 20)
        self.manifest_sha = hashlib.sha256(raw).hexdigest()
        self.m = m = json.loads(raw.decode("utf-8"), object_pairs_hook=no_doubles)
        keys_are(m, ["magic", "version", "min_reader", "writer", "model_id", "family", "arch",
                     "source", "quantization", "sections", "files"])
        need(m["magic"] == "GTURBO" and m["min_reader"] == 2, "not an install of version 2")
        need(re.fullmatch(r"[A-Za-z0-9._:/+@-]{1,95}", m["model_id"]), "model_id")
        need(m["family"] == m["arch"]["family"], "family is stated twice, differently")
        a = self.arch = m["arch"]
        self.experts = a.get("n_experts", 0)
        self.layers, self.drafts = a["n_layers"], a["n_mtp_layers"]
        self.check_files()
        self.index = {}
        self.check_sections()
        self.check_quantization()

    def read(self, rel, offset=0, n=None, limit=None):
        full = os.path.join(self.path, rel)
        st = os.lstat(full)
        need(stat.S_ISREG(st.st_mode), "%s is not a regular file" % rel)
        need(limit is None or st.st_size <= limit, "%s is too big" % rel)
        with open(full, "rb") as f:
            f.seek(offset)
            data = f.read() if n is None else f.read(n)
        need(n is None or len(data) == n, "%s is truncated" % rel)
        return data

    def check_files(self):
        for rel, f in self.m["files"].items():
            keys_are(f, ["size", "sha256"])
            need(len(rel) <= 255 and re.fullmatch(REL, rel), rel)
            size, sha = 0, hashlib.sha256()
            with open(os.path.join(self.path, rel), "rb") as h:
                for block in iter(lambda: h.read(1 << 20), b""):
                    size += len(block)
                    sha.update(block)
            need(size == f["size"], "%s has %d bytes, listed %d" % (rel, size, f["size"]))
            need(sha.hexdigest() == f["sha256"], "%s has another SHA-256" % rel)

    def size(self, rel):
        need(rel in self.m["files"], "%s is not listed" % rel)
        return self.m["files"][rel]["size"]

    def check_sections(self):
        s, owned = self.m["sections"], set()
        for name, section in s.items():
            if name not in ("weights", "experts", "mtp", "tokenizer"):
                need(section["must_understand"] is False, "unknown section " + name)
                owned |= set(section["files"])
        need(("experts" in s) == (self.experts > 0), "section experts")
        need(("mtp" in s) == (self.drafts > 0), "section mtp")
        owned |= self.check_weights("weights", "model_weights.bin", s["weights"])
        self.layout = {}
        if self.experts:
            keys_are(s["experts"], ["must_understand", "crc_file", "layout"])
            self.layout[False] = self.check_layout(s["experts"]["layout"])
            owned.add("packed_experts/crc32c.bin")
            self.read_crc()
            owned |= self.check_layers("layer", self.layers, self.layout[False])
        if self.drafts:
            owned |= self.check_weights("mtp", "mtp_weights.bin", s["mtp"])
            if self.experts:
                self.layout[True] = self.check_layout(s["mtp"]["layout"])
                owned |= self.check_layers("mtp", self.drafts, self.layout[True])
        if "tokenizer" in s:
            names = {r for r in self.m["files"] if re.fullmatch(r"tokenizer/[^/]+", r)}
            need(names, "section tokenizer has no files")
            owned |= names
        strays = sorted(set(self.m["files"]) ^ owned)
        need(not strays, "files without a section: %s" % strays)

    def check_weights(self, section, rel, s):
        need(s["file"] == rel, "file of section " + section)
        n = s["index_bytes"]
        need(n % PAGE == 0 and PAGE <= n <= 32 << 20, "index_bytes")
        raw = self.read(rel, 0, n)
        need(hashlib.sha256(raw).hexdigest() == s["index_sha256"],
             "the index of %s has another SHA-256" % rel)
        need(raw[:8] == b"GTWEIGHT", "magic of " + rel)
        known = struct.unpack_from("<IIfI", raw, 8)
        need(known == (1, 0x0A0B0C0D, -118.625, 0), "known numbers of " + rel)
        index_bytes, file_bytes, count, entries = struct.unpack_from("<4Q", raw, 24)
        names, names_bytes = struct.unpack_from("<2Q", raw, 56)
        need(index_bytes == n and file_bytes == self.size(rel), "header of " + rel)
        need(entries == 128 and names == 128 + 128 * count, "header of " + rel)
        need(up(names + names_bytes, PAGE) == n, "header of " + rel)
        need(not any(raw[72:128]) and not any(raw[names + names_bytes:]), "padding of " + rel)
        end, name_at, last = n, names, b""
        for i in range(count):
            at = 128 + 128 * i
            offset, length, dtype, rank, zero = struct.unpack_from("<QIIII", raw, at)
            shape = struct.unpack_from("<4Q", raw, at + 24)
            places = struct.unpack_from("<6Q", raw, at + 56)
            name = raw[offset:offset + length]
            need(offset == name_at and 1 <= length <= 512 and name > last, "names of " + rel)
            need(re.fullmatch(rb"[A-Za-z0-9._]+", name), "names of " + rel)
            need(dtype < 6 and 1 <= rank <= 4 and not any(shape[rank:]), "entry of " + rel)
            need(zero == 0 and not any(raw[at + 104:at + 128]), "entry of " + rel)
            want = []
            for size in parts_of(DTYPES[dtype], shape[:rank]):
                start = up(end, 64) if size else 0
                if size:
                    need(not any(self.read(rel, end, start - end)), "padding of " + rel)
                    end = start + size
                want += [start, size]
            need(list(places) == want, "places of %s in %s" % (name.decode(), rel))
            self.index[name.decode()] = (rel, DTYPES[dtype], list(shape[:rank]), want)
            name_at, last = name_at + length, name
        need(name_at == names + names_bytes and up(end, PAGE) == file_bytes, "end of " + rel)
        need(not any(self.read(rel, end, file_bytes - end)), "padding of " + rel)
        return {rel}

    def check_layout(self, t):
        keys_are(t, ["n_experts", "stride", "payload_bytes", "gate", "up", "down"])
        f, h, end = self.arch["moe_intermediate"], self.arch["hidden_size"], 0
        for name, shape in (("gate", [f, h]), ("up", [f, h]), ("down", [h, f])):
            mat = t[name]
            keys_are(mat, ["dtype", "rows", "cols", "words", "scales", "biases"])
            need([mat["rows"], mat["cols"]] == shape, "shape of " + name)
            for part, size in zip(("words", "scales", "biases"), parts_of(mat["dtype"], shape)):
                start = up(end, 64) if size else 0
                need(mat[part] == [start, size], "%s of %s" % (part, name))
                end = start + size if size else end
        need(t["payload_bytes"] == end and t["stride"] == up(end, PAGE), "stride")
        need(t["n_experts"] == self.experts, "n_experts")
        return t

    def read_crc(self):
        rel = "packed_experts/crc32c.bin"
        raw = self.read(rel, limit=self.size(rel))
        head = b"GTCRC32C" + struct.pack("<4I", 1, self.layers, self.drafts, self.experts)
        count = self.experts * (self.layers + self.drafts)
        need(raw[:64] == head.ljust(64, b"\0") and len(raw) == 64 + 4 * count, "header of " + rel)
        self.crc = struct.unpack_from("<%dI" % count, raw, 64)

    def check_layers(self, stem, layers, t):
        names = set()
        for layer in range(layers):
            rel = "packed_experts/%s_%02d.bin" % (stem, layer)
            need(self.size(rel) == t["stride"] * self.experts, "size of " + rel)
            row = layer + (self.layers if stem == "mtp" else 0)
            for e in range(self.experts):
                raw = self.read(rel, e * t["stride"], t["stride"])
                need(crc32c(raw[:t["payload_bytes"]]) == self.crc[row * self.experts + e],
                     "expert %d of %s has another CRC-32C" % (e, rel))
                need(not any(raw[t["payload_bytes"]:]), "padding of expert %d of %s" % (e, rel))
            names.add(rel)
        return names

    def check_quantization(self):
        want = {n: {"bits": BITS[d], "group_size": 64, "mode": "affine"}
                for n, (_, d, _, _) in self.index.items() if d in BITS}
        need(self.m["quantization"] == want, "quantization does not describe the tensors")

    def check_receipt(self):
        """Whether the receipt, if any, is for this place and these files."""
        if not os.path.exists(os.path.join(self.path, "verified-install.json")):
            return "absent"
        r = json.loads(self.read("verified-install.json", limit=16 << 20).decode("utf-8"),
                       object_pairs_hook=no_doubles)
        keys_are(r, ["magic", "version", "manifest_sha256", "path", "files", "tool", "time"])
        need(r["magic"] == "GTURBO-RECEIPT" and r["version"] == 1, "magic of the receipt")
        need(r["manifest_sha256"] == self.manifest_sha, "the receipt is for another manifest")
        need(r["path"] == self.path, "the receipt is for another place")
        want = {}
        for rel, f in self.m["files"].items():
            st = os.lstat(os.path.join(self.path, rel))
            want[rel] = {"size": f["size"], "sha256": f["sha256"], "mtime_ns": st.st_mtime_ns}
        need(r["files"] == want, "the receipt does not describe the files")
        return "valid"

    def values(self, rel, base, dtype, shape, places):
        """Values of a tensor, row-major."""
        raw = [self.read(rel, base + places[2 * i], places[2 * i + 1]) for i in range(3)]
        if dtype in BITS:
            rows = 1
            for n in shape[:-1]:
                rows *= n
            return dequantize(BITS[dtype], [
                rows_of(raw[0], 4, rows, shape[-1] * BITS[dtype] // 32),
                rows_of(raw[1], 2, rows, shape[-1] // 64),
                rows_of(raw[2], 2, rows, shape[-1] // 64)])
        return plain(dtype, raw[0])

    def tensor(self, name):
        need(name in self.index, "there is no tensor " + name)
        rel, dtype, shape, places = self.index[name]
        return shape, self.values(rel, 0, dtype, shape, places)

    def expert(self, layer, mtp, e, mat):
        layers = self.drafts if mtp else self.layers
        need(e < self.experts and layer < layers, "no such expert")
        t = self.layout[mtp]
        m = t[mat]
        rel = "packed_experts/%s_%02d.bin" % ("mtp" if mtp else "layer", layer)
        places = m["words"] + m["scales"] + m["biases"]
        return [m["rows"], m["cols"]], self.values(
            rel, e * t["stride"], m["dtype"], [m["rows"], m["cols"]], places)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bf16s(raw):
    return [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]


def plain(dtype, raw):
    if dtype == "BF16":
        return bf16s(raw)
    code = {"F32": "f", "F16": "e", "I64": "q"}[dtype]
    return list(struct.unpack("<%d%s" % (len(raw) // SIZE[dtype], code), raw))


def rows_of(panels, unit, rows, per_row):
    """Units of `unit` bytes from panels of 32 rows, row by row."""
    out = bytearray()
    for r in range(rows):
        for k in range(per_row):
            at = ((r // 32 * per_row + k) * 32 + r % 32) * unit
            out += panels[at:at + unit]
    return bytes(out)


def dequantize(bits, raw):
    scales, biases, out = bf16s(raw[1]), bf16s(raw[2]), []
    codes = raw[0] if bits == 8 else [c for byte in raw[0] for c in (byte & 15, byte >> 4)]
    for g, (s, b) in enumerate(zip(scales, biases)):
        # The product is exact in double; the engine rounds once to f32 after each operation.
        out += [f32(f32(s * q) + b) for q in codes[64 * g:64 * g + 64]]
    return out


def main():
    p = argparse.ArgumentParser(description="check and read a .gturbo install")
    p.add_argument("install")
    p.add_argument("--tensor")
    p.add_argument("--expert")
    p.add_argument("--f32")
    args = p.parse_args()
    try:
        install = Install(args.install)
        receipt = install.check_receipt()
        if args.tensor:
            shape, values = install.tensor(args.tensor)
        elif args.expert:
            m = re.fullmatch(r"(mtp\.)?(\d+),(\d+),(gate|up|down)", args.expert)
            need(m, "--expert is not L,E,MAT")
            shape, values = install.expert(int(m[2]), bool(m[1]), int(m[3]), m[4])
        else:
            counts = (install.m["model_id"], len(install.index), len(install.m["files"]), receipt)
            print("%s: sound, %d tensors, %d files, receipt %s" % counts)
            return 0
        if args.f32:
            with open(args.f32, "wb") as out:
                out.write(struct.pack("<%df" % len(values), *values))
        else:
            for i in range(0, len(values), shape[-1]):
                print(" ".join("%.9g" % v for v in values[i:i + shape[-1]]))
    except (Bad, OSError, ValueError, KeyError, TypeError, IndexError, struct.error) as e:
        print("read_gturbo.py: %s: %s" % (args.install, e), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
