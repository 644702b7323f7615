//! What one caller at a time sees.

use chancery_protocol::Denied;

use super::super::atomic::changes_of;
use super::super::*;
use super::*;

#[test]
fn what_is_held_counts_until_it_is_settled_for_less() {
    let account = [account(per_minute(10))];
    let first = reserve(&account, usd(6), NOON).unwrap();
    assert!(reserve(&account, usd(5), NOON).is_err());
    first.settle(usd(5), NOON);
    let second = reserve(&account, usd(5), NOON).unwrap();
    assert_eq!(second.remaining(NOON).micro_usd, Some(0));
    assert_eq!(second.remaining(NOON).tokens, None);
}

#[test]
fn a_charge_counts_for_sixty_seconds_and_not_for_sixty_two() {
    let account = [account(per_minute(10))];
    let booked = NOON + Duration::from_millis(999);
    reserve(&account, usd(10), NOON).unwrap().settle(usd(10), booked);
    let short = reserve(&account, usd(1), booked).unwrap_err();
    assert_eq!(short.frees, Frees::At(NOON + seconds(61)));
    assert!(check(&account, usd(1), booked + seconds(60)).is_err());
    assert!(check(&account, usd(10), NOON + seconds(61)).is_ok());
}

#[test]
fn an_hour_rolls_by_minutes() {
    let hour = [account(Caps { per_hour: cap(10), ..Caps::default() })];
    reserve(&hour, usd(10), NOON).unwrap().settle(usd(10), NOON);
    let short = reserve(&hour, usd(1), NOON + seconds(1_800)).unwrap_err();
    assert_eq!(short.retry_after(), Some(seconds(61 * 60 - 1_800)));
    assert!(check(&hour, usd(1), NOON + seconds(3_600)).is_err());
    assert!(check(&hour, usd(10), NOON + seconds(3_660)).is_ok());
}

#[test]
fn days_and_months_end_with_the_calendar() {
    let day = [account(Caps { per_day: cap(10), ..Caps::default() })];
    let month = [account(Caps { per_month: cap(10), ..Caps::default() })];
    for account in [&day, &month] {
        reserve(account, usd(10), NOON).unwrap().settle(usd(10), NOON);
    }
    let midnight = NOON + seconds(12 * 3_600);
    let february = Millis(1_769_904_000_000);
    assert_eq!(check(&day, usd(1), NOON).unwrap_err().frees, Frees::At(midnight));
    assert_eq!(check(&month, usd(1), NOON).unwrap_err().frees, Frees::At(february));
    assert!(check(&day, usd(1), Millis(midnight.0 - 1)).is_err());
    assert!(check(&day, usd(10), midnight).is_ok());
    assert!(check(&month, usd(1), midnight).is_err());
    assert!(check(&month, usd(10), february).is_ok());
}

#[test]
fn a_refused_level_gives_back_what_the_others_took() {
    let ledger = ledger(100, 10, Overflow::Shed);
    let short = reserve(accounts(&ledger, "ann"), usd(11), NOON).unwrap_err();
    assert_eq!(short.scope, caller("ann"));
    let global = ledger.account(&Scope::Global, NOON).unwrap();
    assert_eq!(global.remaining(NOON).micro_usd, Some(100));
}

#[test]
fn the_limit_that_refuses_for_longest_answers() {
    let caps = Caps { per_minute: cap(10), per_day: cap(10), ..Caps::default() };
    let both = [account(caps)];
    reserve(&both, usd(10), NOON).unwrap().settle(usd(10), NOON);
    assert_eq!(reserve(&both, usd(1), NOON).unwrap_err().window, Window::Day);
    let never = reserve(&both, usd(11), NOON).unwrap_err();
    assert_eq!((never.frees, never.retry_after()), (Frees::Never, None));
}

#[test]
fn a_refusal_says_everything_that_helps() {
    let ledger = ledger(20_000_000, 5_000_000, Overflow::Shed);
    let kept = reserve(accounts(&ledger, "ann"), usd(4_900_000), NOON).unwrap();
    let denied = Denied::from(reserve(accounts(&ledger, "ann"), usd(200_000), NOON).unwrap_err());
    assert_eq!((denied.gate.as_ref(), denied.reason.as_ref()), ("budget", "BUDGET_EXCEEDED"));
    let limit = "5.000000 USD per minute for caller `ann` of realm `acme`";
    assert_eq!(denied.limit.as_deref(), Some(limit));
    assert_eq!(denied.observed.as_deref(), Some("5.100000 USD"));
    assert_eq!(denied.remaining.as_deref(), Some("0.100000 USD"));
    assert_eq!(denied.retry_after, Some(seconds(1)));
    assert!(denied.hint.unwrap().starts_with("wait for calls"));
    kept.release(NOON);
}

#[test]
fn an_extension_is_settled_with_the_rest() {
    let account = [account(per_minute(10))];
    let mut call = reserve(&account, usd(4), NOON).unwrap();
    call.extend(usd(5), NOON).unwrap();
    assert_eq!(call.amount(), usd(9));
    assert_eq!(call.extend(usd(2), NOON).unwrap_err().remaining, 1);
    call.settle(usd(9), NOON);
    assert_eq!(account[0].standings(NOON)[0].charged, 9);
    assert_eq!(account[0].standings(NOON)[0].held, 0);
}

#[test]
fn what_is_dropped_is_released() {
    let account = [account(per_minute(10))];
    let mut call = reserve(&account, usd(4), NOON).unwrap();
    call.extend(usd(6), NOON).unwrap();
    drop(call);
    assert!(check(&account, usd(10), NOON).is_ok());
}

#[test]
fn what_is_reported_in_the_end_is_held_as_far_as_every_account_has_room() {
    let (wide, narrow) = (account(per_minute(20)), account(per_minute(10)));
    let other = reserve([wide.clone()], usd(13), NOON).unwrap();
    let mut call = reserve([wide.clone(), narrow.clone()], usd(4), NOON).unwrap();
    assert_eq!(call.extend_partly(usd(50), NOON), usd(3), "the other call holds the rest");
    assert_eq!((wide.remaining(NOON).micro_usd, narrow.remaining(NOON).micro_usd), (Some(0), Some(3)));
    other.release(NOON);
    assert_eq!(call.extend_partly(usd(50), NOON), usd(3), "the narrow one has no more");
    assert_eq!((call.amount(), wide.remaining(NOON).micro_usd), (usd(10), Some(10)));
    assert_eq!(call.extend_partly(usd(1), NOON), usd(0));
    call.settle(usd(9), NOON);
    assert_eq!((wide.remaining(NOON).micro_usd, narrow.remaining(NOON).micro_usd), (Some(11), Some(1)));
}

#[test]
fn each_metric_is_extended_by_itself() {
    let cap = |tokens| Cap { micro_usd: Some(10), tokens, tasks: Some(1) };
    let [one, other] = [cap(Some(5)), cap(None)].map(|per_day| account(Caps { per_day, ..Caps::default() }));
    let mut call = reserve([one, other], Amount { micro_usd: 1, tokens: 1, tasks: 1 }, NOON).unwrap();
    let got = call.extend_partly(Amount { micro_usd: 4, tokens: 40, tasks: 0 }, NOON);
    assert_eq!(got, Amount { micro_usd: 4, tokens: 4, tasks: 0 });
    assert_eq!(call.amount(), Amount { micro_usd: 5, tokens: 5, tasks: 1 });
}

#[test]
fn nothing_is_charged_that_was_not_held() {
    let account = [account(per_minute(10))];
    reserve(&account, usd(4), NOON).unwrap().settle(usd(15), NOON);
    assert_eq!(account[0].standings(NOON)[0].charged, 4);
}

#[test]
fn a_charge_that_needs_no_room_may_pass_a_limit_and_says_until_when() {
    let ledger = Ledger::new(Limits { overrun: per_minute(10), ..Limits::default() });
    let edition = ledger.edition();
    let overruns = ledger.account(&Scope::Overrun("far".into()), NOON).unwrap();
    let passed = |now| exceeded(&overruns, &edition, now);
    charge(std::slice::from_ref(&overruns), usd(10), NOON);
    assert_eq!(passed(NOON), None, "it is not passed yet");
    charge(std::slice::from_ref(&overruns), usd(5), NOON + seconds(1));
    let short = passed(NOON + seconds(2)).unwrap();
    assert_eq!((short.observed, short.remaining, short.frees), (15, 0, Frees::At(NOON + seconds(61))));
    let denied = short.of_overruns("far");
    assert_eq!((&*denied.gate, &*denied.reason), ("budget", BUDGET_OVERRUN));
    assert_eq!(denied.limit.as_deref(), Some("0.000010 USD per minute for overruns of agent `far`"));
    assert_eq!(denied.retry_after, Some(seconds(59)));
    assert!(passed(NOON + seconds(60)).is_some());
    assert_eq!(passed(NOON + seconds(61)), None);
}

#[test]
fn a_call_that_asks_for_nothing_is_let_in_whatever_was_spent() {
    let account = [account(per_minute(10))];
    charge(&account, usd(15), NOON);
    assert!(reserve(&account, Amount::ONE_TASK, NOON).is_ok());
    assert!(reserve(&account, usd(1), NOON).is_err());
}

#[test]
fn a_report_without_bounds_does_not_overflow() {
    let account = [account(per_minute(10))];
    for _ in 0..1_000 {
        Reservation::force(&account, usd(u64::MAX), NOON).settle(usd(u64::MAX), NOON);
        charge(&account, usd(u64::MAX), NOON);
    }
    assert!(check(&account, usd(1), NOON).is_err());
    assert!(check(&account, usd(10), NOON + seconds(61)).is_ok());
}

#[test]
fn the_clock_may_go_back() {
    let account = [account(per_minute(10))];
    reserve(&account, usd(10), NOON).unwrap().settle(usd(10), NOON);
    let before = Millis(NOON.0 - 3_600_000);
    assert!(reserve(&account, usd(1), before).is_err());
    assert!(reserve(&account, usd(1), Millis(0)).is_err());
    let later = NOON + seconds(61);
    let call = reserve(&account, usd(10), later).unwrap();
    call.settle(usd(10), before);
    assert!(check(&account, usd(1), later + seconds(60)).is_err());
    assert!(check(&account, usd(10), later + seconds(61)).is_ok());
    assert!(check(&account, usd(10), Millis(u64::MAX)).is_ok());
}

#[test]
fn accounts_of_calls_count_for_life() {
    let ledger = Ledger::new(Limits::default());
    assert!(ledger.account(&Scope::Global, NOON).is_none());
    assert!(ledger.root(HopId::generate(), Cap::default()).is_none());
    let root = [ledger.root(HopId::generate(), cap(10)).unwrap()];
    reserve(&root, usd(8), NOON).unwrap().settle(usd(8), NOON);
    let short = check(&root, usd(3), NOON + seconds(86_400 * 60)).unwrap_err();
    assert_eq!((short.scope.level(), short.frees), (Level::Root, Frees::Never));
    let held = reserve(&root, usd(2), NOON).unwrap();
    assert_eq!(check(&root, usd(2), NOON).unwrap_err().frees, Frees::WhenSettled);
    held.release(NOON);
}

#[test]
fn a_top_up_lasts_until_the_window_ends() {
    let day = [account(Caps { per_day: cap(10), ..Caps::default() })];
    assert!(!day[0].top_up(Window::Hour, usd(5), NOON));
    assert!(day[0].top_up(Window::Day, usd(5), NOON));
    let tomorrow = NOON + seconds(86_400);
    assert!(check(&day, usd(15), NOON).is_ok());
    assert!(check(&day, usd(11), tomorrow).is_err());
    day[0].top_up(Window::Day, usd(1), tomorrow);
    assert_eq!(day[0].standings(tomorrow)[0].cap, 11);
    let minute = [account(per_minute(10))];
    minute[0].top_up(Window::Minute, usd(5), NOON);
    assert!(check(&minute, usd(15), NOON + seconds(60)).is_ok());
    assert!(check(&minute, usd(11), NOON + seconds(61)).is_err());
}

#[test]
fn a_reset_forgets_charges_and_keeps_what_is_held() {
    let account = [account(Caps { per_minute: cap(10), per_month: cap(10), ..Caps::default() })];
    let held = reserve(&account, usd(2), NOON).unwrap();
    reserve(&account, usd(5), NOON).unwrap().settle(usd(5), NOON);
    charge(&account, usd(15), NOON);
    account[0].reset(NOON);
    for standing in account[0].standings(NOON) {
        assert_eq!((standing.charged, standing.held, standing.remaining), (0, 2, 8));
    }
    held.settle(usd(2), NOON + seconds(90));
    assert_eq!(account[0].remaining(NOON + seconds(90)).micro_usd, Some(8));
}

/// With a limit over every window.
fn of_all_windows() -> Arc<Account> {
    let each = cap(1_000);
    account(Caps { per_minute: each, per_hour: each, per_day: each, per_month: each })
}

fn charged(account: &Account, now: Millis) -> Vec<u64> {
    account.standings(now).iter().map(|standing| standing.charged).collect()
}

#[test]
fn a_reset_in_the_same_second_as_a_charge_stays_reset_after_a_restart() {
    let before = of_all_windows();
    let (early, at, late) =
        (NOON + seconds(5), NOON + Duration::from_millis(30_400), NOON + Duration::from_millis(30_700));
    let charge_it =
        |account: &Arc<Account>, amount, at| charge(std::slice::from_ref(account), usd(amount), at);
    charge_it(&before, 30, early);
    charge_it(&before, 20, at);
    let reset = before.reset(at);
    charge_it(&before, 7, late);
    assert_eq!(charged(&before, late), [7; 4]);

    // What is known after a restart are sums of seconds, then of minutes, each as of its end.
    let now = NOON + seconds(31);
    for (spans, now) in [
        (vec![(30, NOON + Duration::from_millis(5_999)), (27, NOON + Duration::from_millis(30_999))], now),
        (vec![(57, NOON + Duration::from_millis(59_999))], NOON + seconds(60)),
    ] {
        let after = of_all_windows();
        let (earlier, later): (Vec<_>, Vec<_>) = spans.into_iter().partition(|(_, end)| *end < reset.at);
        earlier.into_iter().for_each(|(sum, end)| charge_it(&after, sum, end));
        after.reset_again(&reset);
        later.into_iter().for_each(|(sum, end)| charge_it(&after, sum, end));
        after.end_resets();
        assert_eq!(charged(&after, now), [7; 4]);
        assert_eq!(after.remaining(now).micro_usd, Some(993));
    }
}

#[test]
fn a_reset_is_done_again_after_a_restart() {
    let charge_it =
        |account: &Arc<Account>, amount, at| charge(std::slice::from_ref(account), usd(amount), at);
    let before = of_all_windows();
    let (early, at, later, late) = (NOON, NOON + seconds(10), NOON + seconds(15), NOON + seconds(20));
    charge_it(&before, 30, early);
    let first = before.reset(at);
    assert_eq!(first.forgotten, Window::ALL.map(|window| (window, usd(30))));
    charge_it(&before, 5, later);
    let second = before.reset(later);
    charge_it(&before, 7, late);

    // Two resets, and all that is known of the day is its sum.
    let after = of_all_windows();
    after.reset_again(&first);
    after.reset_again(&second);
    charge_it(&after, 42, late);
    after.end_resets();
    assert_eq!(charged(&after, late), [7; 4]);

    // No more is forgotten than is known, nor tomorrow what was forgotten today.
    let nothing = of_all_windows();
    nothing.reset_again(&first);
    nothing.end_resets();
    assert_eq!(nothing.remaining(late).micro_usd, Some(1_000));
    let tomorrow = NOON + seconds(86_400);
    let next = account(Caps { per_day: cap(100), ..Caps::default() });
    next.reset_again(&first);
    charge_it(&next, 30, late);
    charge_it(&next, 40, tomorrow);
    next.end_resets();
    assert_eq!(next.remaining(tomorrow).micro_usd, Some(60));
}

#[test]
fn idle_accounts_make_place_and_those_who_find_none_share() {
    let mut limits = Limits { max_accounts: 2, ..Limits::default() };
    limits.caller.default = per_minute(10);
    let ledger = Ledger::new(limits);
    let [ann, bob] = ["ann", "bob"].map(|id| ledger.account(&caller(id), NOON).unwrap());
    reserve([ann.clone()], usd(1), NOON).unwrap().settle(usd(1), NOON);
    drop((ann, bob));
    // Nothing is known of bob that is worth keeping.
    let cid = ledger.account(&caller("cid"), NOON).unwrap();
    assert_eq!(cid.scope(), &caller("cid"));
    let shared = ledger.account(&caller("dan"), NOON + seconds(2)).unwrap();
    assert_eq!(shared.scope(), &Scope::Others(Level::Caller));
    assert!(Arc::ptr_eq(&shared, &ledger.account(&caller("eve"), NOON + seconds(2)).unwrap()));
    assert_eq!(ledger.account(&caller("ann"), NOON).unwrap().remaining(NOON).micro_usd, Some(9));
    assert_eq!(ledger.account(&caller("dan"), NOON + seconds(70)).unwrap().scope(), &caller("dan"));
    assert!(ledger.accounts().len() <= 3);
}

#[test]
fn the_same_name_in_another_realm_is_another_caller() {
    let ledger = ledger(100, 10, Overflow::Shed);
    let here = ledger.account(&caller("ann"), NOON).unwrap();
    let there = Scope::Caller { realm: Arc::from("other"), id: Arc::from("ann") };
    assert!(!Arc::ptr_eq(&here, &ledger.account(&there, NOON).unwrap()));
}

#[test]
fn three_levels_with_every_limit_take_at_most_sixty_changes() {
    let all = Cap { micro_usd: Some(1 << 40), tokens: Some(1 << 40), tasks: Some(1 << 40) };
    let caps = Caps { per_minute: all, per_hour: all, per_day: all, per_month: all };
    let levels: Accounts = (0..3).map(|_| account(caps)).collect();
    let held = Amount { micro_usd: 5, tokens: 5, tasks: 1 };
    let charged = Amount { micro_usd: 3, tokens: 3, tasks: 1 };
    let mut most = 0;
    // Never the same period twice, now and then after a long time.
    for hours in [0, 1, 5, 24, 24 * 31, 24 * 365] {
        let now = NOON + seconds(hours * 3_600);
        let later = now + seconds(3_600);
        most = most.max(changes_of(|| reserve(&levels, held, now).unwrap().settle(charged, later)));
    }
    // Each level works its ceilings out twice, and what it claims and leaves meanwhile is not counted.
    assert!(most + 3 * 2 * 2 <= 60, "{most} changes");
    let one = Amount { micro_usd: 5, tokens: 5, tasks: 1 };
    let again = NOON + seconds(24 * 366 * 3_600);
    reserve(&levels, one, again).unwrap().settle(one, again);
    // One to hold each of nine.
    assert_eq!(changes_of(|| reserve(&levels, one, again).unwrap().settle(one, again)), 9);
}

#[test]
fn other_limits_hold_for_what_was_counted() {
    let limits = |day: u64| Limits {
        global: Caps { per_day: Cap { tasks: Some(day), ..Cap::default() }, ..Caps::default() },
        ..Limits::default()
    };
    let ledger = Ledger::new(limits(2));
    let accounts: Accounts = ledger.account(&Scope::Global, NOON).into_iter().collect();
    let held = reserve(&accounts, Amount::ONE_TASK, NOON).unwrap();
    reserve(&accounts, Amount::ONE_TASK, NOON).unwrap().settle(Amount::ONE_TASK, NOON);
    assert!(reserve(&accounts, Amount::ONE_TASK, NOON).is_err());
    amend(&ledger, limits(3)).unwrap();
    let third = reserve(&accounts, Amount::ONE_TASK, NOON).unwrap();
    assert!(reserve(&accounts, Amount::ONE_TASK, NOON).is_err());
    drop((held, third));
    amend(&ledger, limits(1)).unwrap();
    assert!(reserve(&accounts, Amount::ONE_TASK, NOON).is_err(), "one was charged, and counts on");
    // Tokens were not counted, nor was anything by the hour.
    let tokens = Caps { per_day: Cap { tokens: Some(9), ..Cap::default() }, ..Caps::default() };
    let hours = Caps { per_hour: Cap { tasks: Some(9), ..Cap::default() }, ..Caps::default() };
    for global in [tokens, hours] {
        assert!(amend(&ledger, Limits { global, ..Limits::default() }).is_err());
    }
    assert!(reserve(&accounts, Amount::ONE_TASK, NOON).is_err(), "nothing has changed");
    amend(&ledger, Limits::default()).unwrap();
    assert!(reserve(&accounts, Amount::ONE_TASK, NOON).is_ok(), "nothing is limited any more");
}
