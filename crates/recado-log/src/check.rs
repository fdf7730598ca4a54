//! Looks at a log that nobody has open, and makes one that cannot be opened openable again.
//!
//! A repair throws nothing away: what it cuts is first copied, or moved, to files that end in `.cut`.

use std::path::PathBuf;

use crate::Position;
use crate::disk::{Disk, read_exact_at, write_all_at, zero_at};
use crate::error::Error;
use crate::format::SegmentHeader;
use crate::geometry::Geometry;
use crate::recovery::{Bad, Cut, Plan, pieces};
use crate::segments::{self, Broken, Cure, Segments, free_name, mark_start, open_segment, segment_name};
use crate::walk::{End, Walk};

/// Damaged tails that a report names; there may be more.
const DAMAGED_TAILS_MAX: usize = 100;
/// For a directory without segments; nothing depends on it.
const SEGMENT_BYTES_UNKNOWN: u64 = 64 << 20;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Segments, prepared ones included.
    pub segments: u64,
    /// First position.
    pub first: Position,
    /// Where the log ends.
    pub tip: Position,
    /// Epoch of the last writer, 0 when there was none.
    pub epoch: u64,
    /// Whole batches.
    pub batches: u64,
    /// Bytes in heads.
    pub head_bytes: u64,
    /// Bytes in tails.
    pub tail_bytes: u64,
    /// Whether the log opens, and what happens then.
    pub verdict: Verdict,
    /// Payloads that were durable and are damaged: the log opens, they cannot be read. At most 100.
    pub damaged_tails: Vec<Damage>,
}

/// Whether a log opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does, with nothing lost.
    Whole,
    /// It does; payloads that were durable are damaged and cannot be read.
    DamagedTails,
    /// It does, and cuts what was never committed.
    TornTail(Damage),
    /// It does not: something that was durable is damaged or gone.
    Corrupt(Damage),
}

/// What is wrong, where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// Which position that is.
    pub position: Position,
    /// What is wrong with it.
    pub what: &'static str,
}

impl Damage {
    fn new(disk: &dyn Disk, geometry: Geometry, position: u64, what: &'static str) -> Damage {
        Damage {
            file: disk.path(&segment_name(geometry.segment(position))),
            offset: geometry.offset(position),
            position: Position(position),
            what,
        }
    }

    fn of_record(disk: &dyn Disk, geometry: Geometry, bad: Bad) -> Damage {
        Damage::new(disk, geometry, bad.position, bad.end.what())
    }

    /// As the error with which an open would fail.
    pub fn error(&self) -> Error {
        Error::Corrupt { file: self.file.clone(), offset: self.offset, position: self.position, what: self.what }
    }
}

/// Reads a whole log, payloads included, and changes nothing.
///
/// # Errors
/// [`Error::InUse`], [`Error::NewerFormat`], [`Error::Io`]. Damage is no error, it is reported.
pub fn check(disk: &dyn Disk) -> Result<Report, Error> {
    let _lock = match segments::lock(disk) {
        Err(Error::ReadOnly { .. }) => None, // then nobody writes to it
        lock => Some(lock?),
    };
    let (segments, broken) = Segments::find_with_faults(disk, SEGMENT_BYTES_UNKNOWN)?;
    let geometry = segments.geometry;
    let plan = Plan::make(disk, &segments)?;
    let (walk, damaged_tails) = read_whole(disk, &segments, plan.tip)?;
    Ok(Report {
        segments: segments.numbers.len() as u64,
        first: Position(geometry.start(segments.first())),
        tip: Position(plan.tip),
        epoch: plan.epoch,
        batches: plan.batches,
        head_bytes: walk.head_bytes,
        tail_bytes: walk.tail_bytes,
        verdict: match verdict(disk, geometry, &plan, broken.as_ref()) {
            Verdict::Whole if !damaged_tails.is_empty() => Verdict::DamagedTails,
            verdict => verdict,
        },
        damaged_tails,
    })
}

/// Walks to `tip`, payloads included, past damaged ones.
fn read_whole<'a>(disk: &'a dyn Disk, segments: &'a Segments, tip: u64) -> Result<(Walk<'a>, Vec<Damage>), Error> {
    let mut walk = Walk::new(disk, segments, true);
    let mut damaged = Vec::new();
    while walk.at < tip {
        match walk.step()? {
            Ok(_) => {}
            Err(End::Tail) => {
                if damaged.len() < DAMAGED_TAILS_MAX {
                    damaged.push(Damage::new(disk, segments.geometry, walk.at, End::Tail.what()));
                }
                walk.skip_tails_until(walk.at + 1);
            }
            Err(_) => break,
        }
    }
    Ok((walk, damaged))
}

fn verdict(disk: &dyn Disk, geometry: Geometry, plan: &Plan, broken: Option<&Broken>) -> Verdict {
    if plan.is_corrupt {
        return Verdict::Corrupt(Damage::of_record(disk, geometry, plan.bad));
    }
    if let Some(broken) = broken {
        return Verdict::Corrupt(Damage::new(disk, geometry, geometry.base(broken.number), broken.what));
    }
    if plan.remains_end > plan.tip {
        return Verdict::TornTail(Damage::of_record(disk, geometry, plan.bad));
    }
    Verdict::Whole
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Damaged segment headers that were written anew; nothing is lost by that.
    pub headers_rewritten: u64,
    /// Segment files that were too short and were filled up with zeros; what they had is kept.
    pub filled: Vec<PathBuf>,
    /// The segment that the log starts with now, if the one before it, or the mark of its start, was not
    /// there: whatever stood before it is lost to the log.
    pub start: Option<PathBuf>,
    /// Where the log was cut, if it was. Every batch behind that is lost to the log.
    pub cut: Option<Cut>,
    /// Records behind the cut that were still whole enough to be recognised.
    pub records_lost: u64,
    /// Where the log ends now.
    pub tip: Position,
    /// The files that keep what was cut away.
    pub kept_in: Vec<PathBuf>,
    /// Payloads in what is left that are damaged, which no repair can change. At most 100.
    pub damaged_tails: Vec<Damage>,
}

/// Makes a log openable: writes damaged segment headers anew, fills up short files, lets the log start with
/// the first segment that is there, and cuts it at its first bad record when that was not all. What is cut is
/// kept in files that end in `.cut`.
///
/// # Errors
/// [`Error::InUse`], [`Error::NewerFormat`], [`Error::Io`]; the repair can then be tried again.
pub fn repair(disk: &dyn Disk) -> Result<Repair, Error> {
    let _lock = segments::lock(disk)?;
    let mut repair = Repair::default();
    let (segments, broken) = loop {
        match Segments::find_with_faults(disk, SEGMENT_BYTES_UNKNOWN)? {
            (segments, Some(broken)) if broken.cure != Cure::Cut => {
                heal(disk, segments.geometry, &broken, &mut repair)?;
            }
            found => break found,
        }
    };
    let plan = Plan::make(disk, &segments)?;
    repair.cut = plan.cut(disk, segments.geometry);
    repair.tip = Position(plan.tip);
    repair.damaged_tails = read_whole(disk, &segments, plan.tip)?.1;
    if !plan.is_corrupt && broken.is_none() && repair.cut.is_none() {
        return Ok(repair);
    }
    repair.records_lost = plan.behind.records;
    if repair.cut.is_none() && broken.is_some() {
        let geometry = segments.geometry;
        repair.cut = Some(Cut {
            file: disk.path(&segment_name(geometry.segment(plan.tip))),
            offset: geometry.offset(plan.tip),
            bytes: 0,
        });
    }
    set_aside_segments(disk, &segments, &plan, &mut repair)?;
    cut_segment(disk, &segments, &plan, &mut repair)?;
    Ok(repair)
}

/// Does what can be done about a broken segment without loss of a record that is there.
fn heal(disk: &dyn Disk, geometry: Geometry, broken: &Broken, repair: &mut Repair) -> Result<(), Error> {
    let number = if let Cure::Start(first) = broken.cure { first } else { broken.number };
    let name = segment_name(number);
    let path = disk.path(&name);
    let file = open_segment(disk, number)?;
    let done = match broken.cure {
        Cure::Header => {
            repair.headers_rewritten += 1;
            let header = SegmentHeader { number, segment_bytes: geometry.segment_bytes }.encode();
            write_all_at(&*file, &header[..SegmentHeader::BYTES], 0).and_then(|()| file.sync_data())
        }
        Cure::Fill(length) => {
            repair.filled.push(path.clone());
            zero_at(&*file, length, geometry.segment_bytes).and_then(|()| file.sync_data())
        }
        Cure::Start(first) => {
            repair.start = Some(path.clone());
            mark_start(&*file, first)
        }
        Cure::Cut => return Ok(()),
    };
    done.map_err(|source| Error::io("repair", &path, source))
}

/// Takes all segments behind the cut out of the log, the last one first, so that it is contiguous
/// whenever this ends. Those with records are kept.
fn set_aside_segments(disk: &dyn Disk, segments: &Segments, plan: &Plan, repair: &mut Repair) -> Result<(), Error> {
    let cut_in = segments.geometry.segment(plan.tip);
    let names = disk.list().map_err(|source| Error::io("list", &disk.path(""), source))?;
    let numbers = names.iter().filter_map(|name| segments::segment_number(name));
    let is_broken = |number| number == cut_in && !segments.numbers.contains(&number);
    let mut behind: Vec<u64> = numbers.filter(|number| *number > cut_in || is_broken(*number)).collect();
    behind.sort_unstable();
    for number in behind.into_iter().rev() {
        let name = segment_name(number);
        let is_empty = segments.numbers.contains(&number) && !plan.behind.ends.contains_key(&number);
        let target = if is_empty { free_name(number) } else { format!("{name}.cut") };
        disk.rename(&name, &target).map_err(|source| Error::io("rename", &disk.path(&name), source))?;
        disk.sync_dir().map_err(|source| Error::io("sync", &disk.path(""), source))?;
        if !is_empty {
            repair.kept_in.push(disk.path(&target));
        }
    }
    Ok(())
}

/// Copies what is behind the cut in its own segment away, then zeroes it there.
fn cut_segment(disk: &dyn Disk, segments: &Segments, plan: &Plan, repair: &mut Repair) -> Result<(), Error> {
    let cut_in = segments.geometry.segment(plan.tip);
    let piece = pieces(segments, plan.tip, plan.remains_end).into_iter().find(|(number, ..)| *number == cut_in);
    let Some((_, from, to)) = piece else {
        return Ok(());
    };
    let file = open_segment(disk, cut_in)?;
    let source_path = disk.path(&segment_name(cut_in));
    let name = format!("{}.{from:08x}.cut", segment_name(cut_in));
    let path = disk.path(&name);
    let copy = disk.create(&name).map_err(|source| Error::io("create", &path, source))?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = from;
    while at < to {
        let count = usize::try_from(to - at).unwrap_or(usize::MAX).min(buffer.len());
        read_exact_at(&*file, &mut buffer[..count], at).map_err(|source| Error::io("read", &source_path, source))?;
        write_all_at(&*copy, &buffer[..count], at - from).map_err(|source| Error::io("write", &path, source))?;
        at += count as u64;
    }
    copy.sync_data().map_err(|source| Error::io("sync", &path, source))?;
    disk.sync_dir().map_err(|source| Error::io("sync", &disk.path(""), source))?;
    repair.kept_in.push(path);
    zero_at(&*file, from, to).map_err(|source| Error::io("zero", &source_path, source))?;
    file.sync_data().map_err(|source| Error::io("sync", &source_path, source))
}
