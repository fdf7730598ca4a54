//! Tables of instants: what a wall clock shows in a zone, with the offset that holds there.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::*;

fn timing(cron: &str, zone: &str, dst: Dst) -> Timing {
    let mut faults = Faults::default();
    let given = Given { cron: Some(cron), time_zone: Some(zone), dst: Some(dst), ..Given::default() };
    let timing = Timing::read(&given, 0, &mut faults);
    assert_eq!(faults.into_errors(), [], "{cron} in {zone}");
    timing.unwrap()
}

fn ms(text: &str) -> u64 {
    crate::time::parse(text).unwrap()
}

/// The instants after `from`, as the wall clock there shows them.
fn check(cron: &str, (zone, dst): (&str, Dst), from: &str, expected: &[&str]) {
    let (timing, place) = (timing(cron, zone, dst), TimeZone::get(zone).unwrap());
    let due = std::iter::successors(timing.next(0, ms(from)), |last| timing.next(0, *last));
    let shown: Vec<String> = due
        .take(expected.len())
        .map(|at| {
            let at = Timestamp::from_millisecond(at as i64).unwrap().to_zoned(place.clone());
            at.strftime("%m-%d %H:%M:%S%:z").to_string().replace(":00+", "+").replace(":00-", "-")
        })
        .collect();
    assert_eq!(shown, expected, "`{cron}` in {zone} with {dst:?}");
}

#[test]
fn fixed_hours_in_berlin() {
    // 2026-03-29 02:00+01:00 is followed by 03:00+02:00, 2026-10-25 03:00+02:00 by 02:00+01:00.
    let spring = "2026-03-28T12:00:00Z";
    for (dst, gap) in
        [(Dst::Once, Some("03-29 03:00+02:00")), (Dst::Both, Some("03-29 03:00+02:00")), (Dst::Skip, None)]
    {
        let days: Vec<&str> = gap.into_iter().chain(["03-30 02:30+02:00", "03-31 02:30+02:00"]).collect();
        check("30 2 * * *", ("Europe/Berlin", dst), spring, &days);
    }
    let autumn = "2026-10-24T12:00:00Z";
    let first = "10-25 02:30+02:00";
    check("30 2 * * *", ("Europe/Berlin", Dst::Once), autumn, &[first, "10-26 02:30+01:00"]);
    check("30 2 * * *", ("Europe/Berlin", Dst::Skip), autumn, &[first, "10-26 02:30+01:00"]);
    check("30 2 * * *", ("Europe/Berlin", Dst::Both), autumn, &[first, "10-25 02:30+01:00", "10-26 02:30+01:00"]);
    // Several times of one gap are made up for by one instant, which may be due by itself.
    check(
        "0,30 2,3 * * *",
        ("Europe/Berlin", Dst::Once),
        "2026-03-29T00:30:00Z",
        &["03-29 03:00+02:00", "03-29 03:30+02:00"],
    );
    // The very end of the gap, asked for from the millisecond before.
    let (zone, end) = ("Europe/Berlin", "2026-03-29T01:00:00Z");
    for (from, dst, expected) in [
        ("2026-03-29T00:59:59.999Z", Dst::Once, "03-29 03:00+02:00"),
        ("2026-03-29T00:59:59.999Z", Dst::Skip, "03-30 02:30+02:00"),
        (end, Dst::Once, "03-30 02:30+02:00"),
    ] {
        check("30 2 * * *", (zone, dst), from, &[expected]);
    }
    // The hour before the gap is no part of it.
    check("0 1 * * *", ("Europe/Berlin", Dst::Once), spring, &["03-29 01:00+01:00", "03-30 01:00+02:00"]);
    // A second pass in which one begins.
    check("*/20 2 * * *", ("Europe/Berlin", Dst::Once), "2026-10-25T01:10:00Z", &["10-26 02:00+01:00"]);
    check(
        "*/20 2 * * *",
        ("Europe/Berlin", Dst::Both),
        "2026-10-25T01:10:00Z",
        &["10-25 02:20+01:00", "10-25 02:40+01:00"],
    );
}

#[test]
fn open_hours_in_berlin() {
    check(
        "*/30 * * * *",
        ("Europe/Berlin", Dst::Once),
        "2026-03-29T00:00:00Z",
        &["03-29 01:30+01:00", "03-29 03:00+02:00", "03-29 03:30+02:00"],
    );
    let doubled = ["10-25 02:00+02:00", "10-25 02:15+02:00", "10-25 02:30+02:00", "10-25 02:45+02:00"];
    let again = ["10-25 02:00+01:00", "10-25 02:15+01:00", "10-25 02:30+01:00", "10-25 02:45+01:00"];
    let both: Vec<&str> = doubled.into_iter().chain(again).chain(["10-25 03:00+01:00"]).collect();
    // It is due 8 times in the doubled hour, whatever was set for fixed hours.
    for dst in [Dst::Once, Dst::Skip, Dst::Both] {
        check("*/15 * * * *", ("Europe/Berlin", dst), "2026-10-24T23:59:00Z", &both);
    }
    // An open hour that does not come is not made up for.
    check(
        "0 */2 * * *",
        ("Europe/Berlin", Dst::Once),
        "2026-03-28T23:00:00Z",
        &["03-29 04:00+02:00", "03-29 06:00+02:00"],
    );
}

#[test]
fn new_york_and_half_an_hour_in_lord_howe() {
    let zone = "America/New_York";
    check("15 2 * * *", (zone, Dst::Once), "2026-03-08T05:00:00Z", &["03-08 03:00-04:00", "03-09 02:15-04:00"]);
    check("15 2 * * *", (zone, Dst::Skip), "2026-03-08T05:00:00Z", &["03-09 02:15-04:00"]);
    check("15 1 * * *", (zone, Dst::Once), "2026-11-01T04:00:00Z", &["11-01 01:15-04:00", "11-02 01:15-05:00"]);
    check("15 1 * * *", (zone, Dst::Both), "2026-11-01T04:00:00Z", &["11-01 01:15-04:00", "11-01 01:15-05:00"]);
    // 02:00+11:00 is followed by 01:30+10:30 on 5 April, 02:00+10:30 by 02:30+11:00 on 4 October.
    let zone = "Australia/Lord_Howe";
    check("45 1 * * *", (zone, Dst::Once), "2026-04-04T12:00:00Z", &["04-05 01:45+11:00", "04-06 01:45+10:30"]);
    check("45 1 * * *", (zone, Dst::Both), "2026-04-04T12:00:00Z", &["04-05 01:45+11:00", "04-05 01:45+10:30"]);
    check(
        "*/15 * * * *",
        (zone, Dst::Once),
        "2026-04-04T14:29:00Z",
        &["04-05 01:30+11:00", "04-05 01:45+11:00", "04-05 01:30+10:30", "04-05 01:45+10:30", "04-05 02:00+10:30"],
    );
    check("15 2 * * *", (zone, Dst::Once), "2026-10-03T12:00:00Z", &["10-04 02:30+11:00", "10-05 02:15+11:00"]);
    check("15 2 * * *", (zone, Dst::Skip), "2026-10-03T12:00:00Z", &["10-05 02:15+11:00"]);
    check("*/15 * * * *", (zone, Dst::Once), "2026-10-03T15:15:00Z", &["10-04 02:30+11:00", "10-04 02:45+11:00"]);
}

#[test]
fn days_that_are_rare_or_missing() {
    // Samoa went over the date line: it had no 30 December 2011.
    check(
        "0 12 * * *",
        ("Pacific/Apia", Dst::Once),
        "2011-12-29T23:00:00Z",
        &["12-31 00:00+14:00", "12-31 12:00+14:00"],
    );
    check(
        "0 12 * * *",
        ("Pacific/Apia", Dst::Skip),
        "2011-12-29T23:00:00Z",
        &["12-31 12:00+14:00", "01-01 12:00+14:00"],
    );
    check(
        "0 0 29 2 *",
        ("Europe/Berlin", Dst::Once),
        "2026-01-01T00:00:00Z",
        &["02-29 00:00+01:00", "02-29 00:00+01:00"],
    );
    check("0 9 L * *", ("UTC", Dst::Once), "2026-01-31T09:00:00Z", &["02-28 09:00+00:00", "03-31 09:00+00:00"]);
    check("0 9 * * FRI#2", ("UTC", Dst::Once), "2026-01-01T00:00:00Z", &["01-09 09:00+00:00", "02-13 09:00+00:00"]);
    check(
        "0 0 13 * FRI",
        ("UTC", Dst::Once),
        "2026-01-01T00:00:00Z",
        &["01-02 00:00+00:00", "01-09 00:00+00:00", "01-13 00:00+00:00"],
    );
    check("15 30 2 * * *", ("UTC", Dst::Once), "2026-01-01T02:30:15.000Z", &["01-02 02:30:15+00:00"]);
    check("15 30 2 * * *", ("UTC", Dst::Once), "2026-01-01T02:30:14.999Z", &["01-01 02:30:15+00:00"]);
}

/// The definition, second by second.
#[test]
fn the_instants_are_those_that_the_wall_clock_shows() {
    for (zone, from) in [
        ("Europe/Berlin", "2026-03-28T22:00:00Z"),
        ("Europe/Berlin", "2026-10-24T22:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T13:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T13:00:00Z"),
        ("America/St_Johns", "2026-11-01T02:00:00Z"),
    ] {
        let place = TimeZone::get(zone).unwrap();
        let timing = timing("*/10 */1 * * *", zone, Dst::Once);
        let shows = |at: u64| {
            let at = Timestamp::from_millisecond(at as i64).unwrap().to_zoned(place.clone());
            at.minute() % 10 == 0 && at.second() == 0
        };
        let (from, to) = (ms(from), ms(from) + 6 * 3_600_000);
        let expected: Vec<u64> = (from + 1_000..=to).step_by(1_000).filter(|at| shows(*at)).collect();
        let due = std::iter::successors(timing.next(0, from), |last| timing.next(0, *last));
        assert_eq!(due.take_while(|at| *at <= to).collect::<Vec<_>>(), expected, "{zone}");
    }
}

#[test]
fn equal_intervals_are_counted_from_their_beginning() {
    let mut faults = Faults::default();
    let timing = Timing::read(&Given { every: Some("15m"), ..Given::default() }, 0, &mut faults).unwrap();
    let minute = 60_000;
    for (after, next) in [(0, 17), (2, 17), (16, 17), (17, 32), (31, 32), (1_000_000, 1_000_007)] {
        assert_eq!(timing.next(2 * minute, after * minute), Some(next * minute), "{after}");
    }
    assert_eq!(timing.next(2 * minute, u64::MAX), None);
    assert_eq!(timing.latest(2 * minute, 17 * minute, 100 * minute), 92 * minute);
    assert_eq!(timing.latest(2 * minute, 17 * minute, 17 * minute), 17 * minute);
}

#[test]
fn the_latest_of_many_missed_is_found() {
    for (cron, one, now, latest) in [
        ("* * * * * *", "2020-01-01T00:00:00Z", "2026-06-02T09:00:00.500Z", "2026-06-02T09:00:00Z"),
        ("*/5 * * * *", "2020-01-01T00:00:00Z", "2026-06-02T09:04:59Z", "2026-06-02T09:00:00Z"),
        ("0 0 1 1 *", "2020-01-01T00:00:00Z", "2026-06-02T09:00:00Z", "2026-01-01T00:00:00Z"),
        ("0 0 29 2 *", "2020-02-29T00:00:00Z", "2026-06-02T09:00:00Z", "2024-02-29T00:00:00Z"),
        ("0 9 * * *", "2026-06-02T09:00:00Z", "2026-06-02T09:00:00Z", "2026-06-02T09:00:00Z"),
    ] {
        let timing = timing(cron, "UTC", Dst::Once);
        assert_eq!(timing.latest(0, ms(one), ms(now)), ms(latest), "{cron}");
    }
}

#[test]
fn what_is_no_timing_is_said_where() {
    let base = Given::default();
    for (given, pointer, told) in [
        (base, "/cron", "is missing"),
        (Given { cron: Some("* * * * *"), every: Some("1m"), ..base }, "/every", "not both"),
        (Given { cron: Some("0 0 30 2 *"), ..base }, "/cron", "never comes"),
        (Given { cron: Some("0 0 * *"), ..base }, "/cron", "this one has 4"),
        (
            Given { cron: Some("* * * * *"), time_zone: Some("Europe/Berln"), ..base },
            "/timeZone",
            "did you mean `Europe/Berlin`?",
        ),
        (Given { cron: Some("* * * * *"), time_zone: Some("+02:00"), ..base }, "/timeZone", "\"Europe/Berlin\""),
        (Given { cron: Some("* * * * *"), time_zone: Some("Etc/Unknown"), ..base }, "/timeZone", "is no name"),
        (Given { cron: Some("* * * * *"), time_zone: Some(""), ..base }, "/timeZone", "\"Europe/Berlin\""),
        (Given { every: Some("15"), ..base }, "/every", "is not a duration"),
        (Given { every: Some("999ms"), ..base }, "/every", "must be from 1s to 365d"),
        (Given { every: Some("0s"), ..base }, "/every", "must be from 1s to 365d"),
        (Given { every: Some("366d"), ..base }, "/every", "must be from 1s to 365d"),
        (Given { every: Some("1h"), time_zone: Some("UTC"), ..base }, "/timeZone", "goes with cron"),
        (Given { every: Some("1h"), dst: Some(Dst::Once), ..base }, "/dst", "goes with cron"),
    ] {
        let mut faults = Faults::default();
        Timing::read(&given, ms("2026-01-01T00:00:00Z"), &mut faults);
        let errors = faults.into_errors();
        assert_eq!(errors.len(), 1, "{given:?}: {errors:?}");
        assert_eq!(errors[0].pointer, pointer, "{given:?}");
        assert!(errors[0].message.contains(told), "{given:?}: {}", errors[0].message);
    }
    assert_eq!(zone_name("europe/berlin").as_deref(), Ok("Europe/Berlin"));
}
