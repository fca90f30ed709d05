"""SentencePiece's precompiled_charsmap: made for tests, and to ask the reference about grapheme clusters."""
import struct


def charsmap(rules):
    """A double-array trie (Darts-clone's units) of the keys of `rules`, bytes to bytes, and what they become."""
    blob, where = b"", {}
    for to in rules.values():
        if to not in where:
            where[to] = len(blob)
            blob += to + b"\0"
    trie = {}
    for key, to in rules.items():
        node = trie
        for byte in key:
            node = node.setdefault(byte, {})
        node[-1] = where[to]  # label 0
    units, taken, bases = [0] * 256, {0}, set()

    def place(node, at):
        labels = [max(label, 0) for label in node]
        base = max(1, len(units) - 512) if len(node) > 1 else 1
        while base in bases or base ^ at >= 1 << 21 or any(base ^ label in taken for label in labels):
            base += 1
        bases.add(base)
        units.extend([0] * ((base | 255) + 1 - len(units)))
        units[at] |= (base ^ at) << 10
        taken.update(base ^ label for label in labels)
        for label, child in node.items():
            if label == -1:
                units[at] |= 1 << 8
                units[base] = 1 << 31 | child
            else:
                units[base ^ label] = label
        for label, child in node.items():
            if label != -1:
                place(child, base ^ label)

    place(trie, 0)
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + blob
