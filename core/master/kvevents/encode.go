package kvevents

import (
	"github.com/mooncake-go/mooncake/core/master/kvevents/msgpack"
)

// encoder writes the payload of messages.
type encoder struct {
	backend        string
	legacy, object bool
}

// payload appends [now, [events], 0] to dst; now is in ms since 1970. The events have the
// IDs from id on.
func (e *encoder) payload(dst []byte, now int64, id uint64, events []event) []byte {
	dst = msgpack.AppendArray(dst, 3)
	dst = msgpack.AppendInt(dst, now)
	dst = msgpack.AppendArray(dst, len(events))
	for i := range events {
		dst = e.event(dst, now, id+uint64(i), &events[i])
	}
	return msgpack.AppendUint(dst, 0) // the rank of a batch, which a pool does not have
}

// event appends one map. The key of an object is all that this side knows of its place in
// a sequence, so that what only an engine knows is nil.
func (e *encoder) event(dst []byte, now int64, id uint64, ev *event) []byte {
	hash, hashed := sequenceHash(ev.key)
	kind, legacy := "removed", "BlockRemoved"
	if ev.stored {
		kind, legacy = "stored", "BlockStored"
	}
	m := mapped{dst: msgpack.AppendMap(dst, e.fields(ev.stored))}
	m.uint("event_id", id)
	m.uint("timestamp", uint64(now)) //nolint:gosec // the clock is past 1970
	m.text("event_type", kind)
	if e.legacy {
		m.text("type", legacy)
	}
	for _, name := range []string{"model_name", "block_size", "additional_salt", "lora_name"} {
		m.null(name)
	}
	m.text("tenant_id", ev.tenant)
	m.text("backend_id", e.backend)
	if ev.group == "" {
		m.null("group_id")
	} else {
		m.text("group_id", ev.group)
	}
	m.text("medium", "cpu")
	m.null("dp_rank")
	m.hashes("seq_hashes", hashed, func(dst []byte) []byte { return msgpack.AppendUint(dst, hash) })
	if e.legacy {
		// Engines publish their hashes as signed numbers.
		m.hashes("block_hashes", hashed, func(dst []byte) []byte { return msgpack.AppendInt(dst, int64(hash)) }) //nolint:gosec // the bits are meant
	}
	if e.object {
		m.text("object_key", ev.key)
	}
	if ev.stored {
		m.uint("base_block_idx", 0)
		m.null("parent_hash")
		m.null("token_ids")
		if e.legacy {
			m.null("parent_block_hash")
		}
	}
	return m.dst
}

// fields is how many fields an event has.
func (e *encoder) fields(stored bool) int {
	n := 13
	if e.object {
		n++
	}
	if e.legacy {
		n += 2
	}
	if stored {
		n += 3
		if e.legacy {
			n++
		}
	}
	return n
}

// mapped appends the fields of a map.
type mapped struct{ dst []byte }

func (m *mapped) name(s string)              { m.dst = msgpack.AppendString(m.dst, s) }
func (m *mapped) null(name string)           { m.name(name); m.dst = msgpack.AppendNil(m.dst) }
func (m *mapped) text(name, value string)    { m.name(name); m.dst = msgpack.AppendString(m.dst, value) }
func (m *mapped) uint(name string, n uint64) { m.name(name); m.dst = msgpack.AppendUint(m.dst, n) }

// hashes appends a list of one hash, or of none.
func (m *mapped) hashes(name string, there bool, hash func([]byte) []byte) {
	m.name(name)
	if !there {
		m.dst = msgpack.AppendArray(m.dst, 0)
		return
	}
	m.dst = hash(msgpack.AppendArray(m.dst, 1))
}
