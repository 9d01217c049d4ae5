"""The policy against a model of the contract, and in its own order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mooncake_plugin import Candidate, Event, Op, Stats, Verdict
from python_lru import LRU, Config

ids = st.integers(0, 12)
events = st.builds(Event, st.sampled_from(list(Op)), ids, st.integers(0, 100), ids, ids)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.lists(events, max_size=8)),
        st.tuples(st.just("propose"), st.tuples(st.integers(1, 300), st.integers(1, 12))),
        st.tuples(st.just("resolve"), st.lists(st.builds(Verdict, ids, st.booleans()), max_size=6)),
    ),
    max_size=40,
)


def made(**config):
    return LRU(Config(**config))


def inserted(policy, *objects):
    policy.record([Event(Op.INSERT, i, 10) for i in objects])
    return policy


def order(policy):
    return [c.id for c in policy.propose(1 << 63, 1 << 15)]


@settings(max_examples=150, deadline=None)
@given(steps, st.booleans())
def test_keeps_the_contract(steps, count_reads):
    policy = made(count_reads=count_reads)
    ranked, proposed = {}, {}
    for what, arg in steps:
        if what == "record":
            policy.record(arg)
            for e in arg:
                if e.op == Op.REMOVE:
                    ranked.pop(e.id, None), proposed.pop(e.id, None)
                elif e.op == Op.INSERT and e.id and e.id not in ranked and e.id not in proposed:
                    ranked[e.id] = e.size
        elif what == "propose":
            wanted, limit = arg
            total = 0
            found = policy.propose(wanted, limit)
            for c in found:
                assert total < wanted, "more than was asked for"
                assert ranked.pop(c.id) == c.size
                proposed[c.id] = c.size
                total += c.size
            assert len(found) <= limit
            assert total >= wanted or len(found) == limit or not ranked, "too little"
        else:
            policy.resolve(arg)
            for v in arg:
                if v.id in proposed:
                    size = proposed.pop(v.id)
                    if not v.evicted:
                        ranked[v.id] = size
        both = list(ranked.values()) + list(proposed.values())
        assert policy.stats() == Stats(len(both), sum(both), len(proposed))


def test_what_was_not_used_for_longest_goes_first():
    policy = inserted(made(), 1, 2, 3)
    policy.record([Event(Op.ACCESS, 1)])
    assert policy.propose(15, 9) == [Candidate(2, 10), Candidate(3, 10)]


def test_a_second_insert_is_an_access():
    policy = inserted(made(), 1, 2, 3)
    policy.record([Event(Op.INSERT, 2, 99)])
    assert order(policy) == [1, 3, 2]
    assert policy.stats().bytes == 30


def test_reads_need_not_count():
    policy = inserted(made(count_reads=False), 1, 2, 3)
    policy.record([Event(Op.ACCESS, 1), Event(Op.INSERT, 2, 10)])
    assert order(policy) == [1, 2, 3]


def test_spared_objects_come_after_all_others():
    policy = inserted(made(), 1, 2, 3, 4)
    policy.propose(20, 9)
    policy.resolve([Verdict(1, False), Verdict(2, True)])
    assert order(policy) == [3, 4, 1]
