//! Checksums: what the disk has changed behind SQLite's back is found, and not served.

/// The CRC-32 of some bytes, one after the other.
pub(super) fn of(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}
