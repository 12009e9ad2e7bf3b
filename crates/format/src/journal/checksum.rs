//! The checksum of a whole transaction in version 1: crc32 with the highest bit first, which is not
//! the crc32c of everything else.

/// Polynomial of crc32, highest bit first.
const POLYNOMIAL: u32 = 0x04c1_1db7;
/// Bytes that one step takes.
const STEP: usize = 8;

/// `TABLES[n][b]`: the crc of byte `b` with `n` zeros after it.
static TABLES: [[u32; 256]; STEP] = tables();

#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)] // run by the compiler
const fn tables() -> [[u32; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc >> 31 == 1 { crc << 1 ^ POLYNOMIAL } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < STEP {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = before << 8 ^ tables[0][(before >> 24) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The crc32 over the descriptors and copies of a transaction in the order of the log, revoke
/// blocks left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransactionChecksum(u32);

impl Default for TransactionChecksum {
    fn default() -> TransactionChecksum {
        TransactionChecksum(!0)
    }
}

impl TransactionChecksum {
    /// Continues with the bytes of a block as the log has them.
    pub fn add(&mut self, block: &[u8]) {
        let (steps, rest) = block.as_chunks::<STEP>();
        for step in steps {
            let [a, b, c, d, e, f, g, h] = *step;
            let [i, j, k, l] = (self.0 ^ u32::from_be_bytes([a, b, c, d])).to_be_bytes();
            let bytes = [i, j, k, l, e, f, g, h];
            let tables = TABLES.iter().rev();
            self.0 = bytes.iter().zip(tables).fold(0, |crc, (byte, table)| {
                crc ^ table.get(usize::from(*byte)).copied().unwrap_or_default()
            });
        }
        let [table, ..] = &TABLES;
        for byte in rest {
            let [high, ..] = self.0.to_be_bytes();
            let crc = table.get(usize::from(high ^ byte)).copied().unwrap_or_default();
            self.0 = self.0 << 8 ^ crc;
        }
    }

    /// What a commit block stores.
    pub fn value(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_crc_32_mpeg_2_however_the_bytes_are_cut() {
        for cut in 0..9 {
            let (first, second) = b"123456789".split_at(cut);
            let mut checksum = TransactionChecksum::default();
            checksum.add(first);
            checksum.add(second);
            assert_eq!(checksum.value(), 0x0376_e6e7, "cut at {cut}");
        }
    }
}
