//! Who may decide that a problem is mended, and what is lost by it.
use crate::options::Scope;
use extant_inspect::Code;

/// What mending takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Price {
    /// Nothing: e2fsck does it without asking.
    Preen,
    /// This, in words, and e2fsck does it without asking: what it is of is lost already.
    PreenLoss(&'static str),
    /// Nothing, but e2fsck asks.
    Safe,
    /// This, in words.
    Loss(&'static str),
    /// No program mends it.
    Never,
}

impl Price {
    /// Whether it may be paid.
    pub(crate) fn is_within(self, scope: Scope) -> bool {
        match self {
            Price::Preen => true,
            Price::PreenLoss(_) => scope != Scope::Safe,
            Price::Safe => scope >= Scope::Safe,
            Price::Loss(_) => scope == Scope::All,
            Price::Never => false,
        }
    }

    /// What is lost.
    pub(crate) fn loss(self) -> Option<&'static str> {
        match self {
            Price::Loss(what) | Price::PreenLoss(what) => Some(what),
            Price::Preen | Price::Safe | Price::Never => None,
        }
    }
}

/// Whether mending frees the inode, where nothing better is known.
pub(crate) fn frees(code: Code) -> bool {
    price(code) == FILE
}

const BYTES: Price = Price::Loss("what the file had there");
const FILE: Price = Price::Loss("the inode and all that was in it");
const NAME: Price = Price::Loss("the name");
const ATTRIBUTES: Price = Price::Loss("attributes");

/// What mending a problem takes.
pub(crate) fn price(code: Code) -> Price {
    use Code as C;
    match code {
        C::SuperblockUnusable
        | C::DeviceTooSmall
        | C::UnknownIncompatible
        | C::UnknownFeature
        | C::SuperblockField
        | C::TooManyGroups
        | C::RootTablePlace
        | C::IsJournalDevice
        | C::MountBlockHeld
        | C::EntryTwiceApart => Price::Never,

        _ if is_preened(code) => Price::Preen,

        C::EntryUnused => Price::PreenLoss("the name"),

        _ => lost(code).unwrap_or(Price::Safe),
    }
}

/// Whether e2fsck mends a problem without asking, and loses nothing by it.
fn is_preened(code: Code) -> bool {
    use Code as C;
    matches!(
        code,
        C::TwoChecksums
            | C::SeedWithoutChecksums
            | C::UninitWithoutChecksums
            | C::UnusedWithoutChecksums
            | C::DescriptorChecksum
            | C::UnusedInodes
            | C::UsedNeverUsed
            | C::JournalLeftovers
            | C::JournalMissing
            | C::JournalInode
            | C::JournalSuperblock
            | C::JournalFields
            | C::JournalFeatures
            | C::JournalChecksum
            | C::JournalError
            | C::OrphansWait
            | C::OrphanDeleted
            | C::OrphanList
            | C::OrphanFile
            | C::LostOrphan
            | C::LargeFile
            | C::InodeChecksum
            | C::DirectoryChecksum
            | C::IndexFlag
            | C::FileSize
            | C::DirectorySize
            | C::InlineSize
            | C::ExtraSize
            | C::UsedButDeleted
            | C::SectorCount
            | C::FieldNotZero
            | C::EntryTyped
            | C::LinkCount
            | C::BlockBitmapChecksum
            | C::BlockBitmapPadding
            | C::BlocksMarkedFree
            | C::BlocksMarkedUsed
            | C::InodeBitmapChecksum
            | C::InodeBitmapPadding
            | C::InodesMarkedFree
            | C::InodesMarkedUsed
            | C::GroupFreeBlocks
            | C::GroupFreeInodes
            | C::GroupDirectories
            | C::FreeBlocks
            | C::FreeInodes
            | C::QuotaUsage
            | C::DirectoryNoChecksum
            | C::IndexRoot
            | C::IndexHashVersion
            | C::IndexFlags
            | C::IndexLevels
            | C::IndexLimit
            | C::IndexCount
            | C::IndexOrder
            | C::IndexChecksum
            | C::DeletedWithoutTime
    )
}

/// What mending a problem loses, if it loses anything.
fn lost(code: Code) -> Option<Price> {
    use Code as C;
    let price = match code {
        C::NoFileType
        | C::InodeChecksumUnread
        | C::ReservedInUse
        | C::EncryptionContext
        | C::BadBlocksInode
        | C::SymlinkInvalid
        | C::SpecialFileMapped => FILE,

        C::MapBlockOutside
        | C::IndirectOutside
        | C::MapBlockOnMetadata
        | C::BlockOutside
        | C::ManyIllegalBlocks
        | C::ClusterAlignment
        | C::ExtentRoot
        | C::ExtentNode
        | C::ExtentPastFile
        | C::ExtentBounds
        | C::ExtentOrder
        | C::DirectoryTooBig
        | C::DirectoriesTooBig
        | C::FileTooLarge
        | C::InlineMissing
        | C::DirectoryWithoutBlocks
        | C::DirectoryHole
        | C::DirectoryChain => BYTES,

        C::AttributesOverlap
        | C::AttributeValueSize
        | C::AttributeHash
        | C::AttributePrefix
        | C::AttributeValueInode
        | C::AttributeBlockOutside
        | C::AttributeBlockMagic
        | C::AttributeBlockCount
        | C::AttributeReferencesLost => ATTRIBUTES,

        C::TranslatorOutside => Price::Loss("the translator that the file had"),

        C::EntryNameEmpty
        | C::EntryNameShort
        | C::EntryInode
        | C::EntryToSelf
        | C::EntryToRoot
        | C::EntryToValue
        | C::EntryUnencrypted
        | C::EntryPolicy
        | C::DirectoryTwice
        | C::DotTwice
        | C::DotNotFirst
        | C::DotDotNotSecond => NAME,

        C::QuotaFile => Price::PreenLoss("limits of quota, where the file had any"),
        C::ExternalJournal => {
            Price::Loss("what a journal on another device held, if there was one")
        }
        C::NeedsRecovery => Price::Loss("what the journal held, which cannot be replayed"),
        C::RootNotDirectory | C::InodeTablePlace | C::InodeTableConflict => FILE,

        _ => return None,
    };
    Some(price)
}
