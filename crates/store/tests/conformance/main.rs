//! What every store must do, whatever is behind it. A back end joins with one line: [`store_suite!`].
//!
//! Nothing here waits or looks at a clock: the statuses of tasks lie far ahead of any clock, and only
//! `Store::sweep` makes time pass.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

mod admissions;
mod audit;
mod calls;
mod care;
mod concurrency;
mod edge_retention;
mod edges;
mod fold;
mod journal;
mod limits;
mod list;
mod list_pages;
mod outbox;
mod push_configs;
mod recovery;
mod reserved;
mod retention;
mod scopes;
mod spend;
mod support;

use std::sync::Arc;

use chancery_store::{Clock, Store, StoreLimits};

/// Makes one test of each check for a back end. `$open` makes an empty store with the limits given.
macro_rules! store_suite {
    ($backend:ident, $open:expr) => {
        mod $backend {
            use super::*;

            fn open(limits: StoreLimits) -> Store {
                ($open)(limits)
            }

            checks! { journal => store(open):
                a_created_task_is_there, numbers_follow_each_other, reads_from_any_position,
                a_batch_is_all_or_nothing, transitions_follow_the_protocol, nothing_follows_the_end,
                a_task_is_created_once, an_unknown_task_takes_nothing, history_is_in_order,
                events_are_kept_byte_for_byte, what_is_noted_about_a_status_is_kept_with_it,
                a_whole_life_in_one_batch_is_compacted_at_once, a_whole_life_that_is_watched_keeps_its_events,
                the_state_value_rides_with_the_batch,
            }
            checks! { fold => store(open): the_task_is_the_fold_of_its_events, }
            checks! { scopes => store(open):
                other_scopes_see_nothing, other_scopes_change_nothing, scopes_hold_the_same_id_apart,
            }
            checks! { list => store(open):
                newest_status_first, only_a_status_moves_a_task, filters_alone_and_together,
                a_context_has_who_opened_it_and_who_joined,
                since_is_inclusive, since_is_exact_below_a_millisecond, an_unknown_scope_is_empty,
            }
            checks! { list_pages => store(open):
                pages_join_without_gap, a_page_of_large_tasks_ends_early, pages_of_a_filtered_list, pages_stand_while_tasks_come,
                pages_stand_while_tasks_move, tokens_travel_as_text,
            }
            checks! { retention => open:
                events_are_compacted_in_time, a_task_outlives_the_events_that_tell_it,
                tasks_are_forgotten_in_time, one_sweep_does_it_all, the_cap_forgets_the_oldest,
                the_cap_forgets_in_order_of_the_end, one_owner_does_not_push_out_anothers, an_owner_has_only_so_many, active_tasks_stay, an_end_without_a_time_is_an_end_now,
            }
            checks! { limits => open:
                events_are_limited, artifacts_are_limited, artifacts_are_counted_once, bytes_are_limited,
            }
            checks! { admissions => open:
                a_key_is_used_once, keys_belong_to_a_scope, what_fails_uses_no_key,
                keys_are_forgotten_in_time, the_cap_forgets_the_oldest_key, one_owner_does_not_push_out_anothers_keys,
                one_of_many_commits,
            }
            checks! { push_configs => open:
                configurations_come_and_go, an_id_is_used_once_and_replaces, too_many_are_refused,
                unknown_tasks_and_configurations_are_told_apart, other_scopes_have_no_part_in_them,
            }
            checks! { outbox => open:
                a_delivery_knows_the_version_it_was_registered_in,
                a_put_gets_what_comes_later, one_that_rides_in_a_batch_gets_all_of_it,
                a_refused_batch_registers_nothing, a_whole_life_keeps_its_events_for_the_receiver,
                outcomes_move_the_cursor, what_is_postponed_comes_back_in_time,
                places_are_in_order_and_pages_join, what_is_new_comes_after_what_was_seen,
                an_overtaken_outcome_changes_nothing, a_replaced_configuration_keeps_its_place_in_the_journal,
                what_is_pending_is_neither_compacted_nor_forgotten, what_is_deleted_holds_nothing_back,
                no_event_is_lost_among_threads,
            }
            checks! { recovery => open: only_tasks_at_work_are_unfinished, tasks_that_wait_are_found_by_their_state, unfinished_pages_join, }
            checks! { reserved => store(open):
                a_reserved_call_is_no_task, reserved_calls_are_found_in_pages, a_reserved_call_becomes_a_task,
                a_key_reserves_once, an_answer_is_kept_with_its_key, what_never_left_frees_its_key,
                reserved_calls_go_with_their_owner,
            }
            checks! { edges => open:
                an_edge_is_there_if_its_batch_is, a_settled_edge_never_changes, an_open_edge_is_replaced,
                a_call_without_a_task_has_an_edge, open_edges_are_found_until_they_are_settled,
                the_tree_of_a_root_is_in_order, filters_alone_and_together, pages_join_in_both_orders,
                realms_never_mix, a_query_looks_at_so_many_and_no_more, one_of_many_settles,
            }
            checks! { spend => open:
                every_charge_is_counted_once_and_by_its_second, what_another_pays_is_counted_as_theirs, what_is_paid_with_other_groups_is_another_sum,
                spans_grow_with_age_and_lose_nothing,
                overruns_are_kept_and_added_up_by_themselves,
                pages_of_sums_join, sums_never_overflow, the_dearest_root_comes_first,
                a_root_is_counted_with_all_that_is_under_it,
            }
            checks! { edge_retention => open:
                settled_edges_are_forgotten_in_time, the_cap_forgets_the_oldest_settled_edge,
                one_caller_does_not_push_out_the_calls_of_another,
                sums_outlive_their_edges, sums_are_forgotten_in_time, what_a_caller_did_is_deleted,
            }
            checks! { audit => store(open):
                entries_follow_each_other, a_changed_or_missing_entry_is_found, a_cut_end_is_found_by_whoever_kept_its_hash,
                what_is_old_goes_and_the_chain_goes_on, what_is_too_much_goes,
            }
            checks! { care => store(open): what_an_owner_had_is_deleted, }
            checks! { concurrency => store(open):
                chunks_from_many_threads, one_end_wins, nothing_slips_in_after_the_end, one_creation_wins,
            }
        }
    };
}

macro_rules! checks {
    ($module:ident => store($open:ident): $($check:ident),* $(,)?) => {
        mod $module {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                crate::$module::$check(crate::with_defaults(super::$open)).await;
            }
        )*}
    };
    ($module:ident => $open:ident: $($check:ident),* $(,)?) => {
        mod $module {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                crate::$module::$check(super::$open).await;
            }
        )*}
    };
}

fn with_defaults(open: impl Fn(StoreLimits) -> Store) -> Arc<Store> {
    Arc::new(open(StoreLimits::default()))
}

store_suite!(memory, |limits| Store::open("memory:", limits).unwrap());
store_suite!(sqlite, |limits| {
    // It has the time of the drafts: what ends about now is kept in another way than what says that it ended long ago.
    Store::open_with(&support::fresh_sqlite_url(), limits, Clock::manual(support::at(0))).unwrap()
});
