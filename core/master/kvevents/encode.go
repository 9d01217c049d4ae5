package kvevents

import (
	"strconv"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// encoder writes the payload of messages.
type encoder struct {
	backend        string
	legacy, object bool
}

// payload appends [now, [events], 0] to dst; now is in ms since 1970. The events have the
// IDs from id on.
func (e *encoder) payload(dst []byte, now int64, id uint64, events []event) []byte {
	dst = appendInt(msgp.AppendArrayHeader(dst, 3), now)
	dst = msgp.AppendArrayHeader(dst, uint32(len(events))) //nolint:gosec // at most maxBatch
	for i := range events {
		dst = e.event(dst, now, id+uint64(i), &events[i])
	}
	return msgp.AppendUint64(dst, 0) // the rank of a batch, which a pool does not have
}

// appendInt appends a number in its shortest form, which is unsigned for a positive one.
func appendInt(dst []byte, n int64) []byte {
	if n >= 0 {
		return msgp.AppendUint64(dst, uint64(n))
	}
	return msgp.AppendInt64(dst, n)
}

// event appends one map. The key of an object is all that this side knows of its place in
// a sequence, so that what only an engine knows is nil.
func (e *encoder) event(dst []byte, now int64, id uint64, ev *event) []byte {
	hash, hashed := sequenceHash(ev.key)
	kind, legacy := "removed", "BlockRemoved"
	if ev.stored {
		kind, legacy = "stored", "BlockStored"
	}
	m := mapped{dst: msgp.AppendMapHeader(dst, e.fields(ev.stored))}
	m.uint("event_id", id)
	m.uint("timestamp", uint64(now)) //nolint:gosec // the clock is past 1970
	m.text("event_type", kind)
	if e.legacy {
		m.text("type", legacy)
	}
	m.null("model_name", "block_size", "additional_salt", "lora_name")
	m.text("tenant_id", ev.tenant)
	m.text("backend_id", e.backend)
	if ev.group == "" {
		m.null("group_id")
	} else {
		m.text("group_id", ev.group)
	}
	m.text("medium", "cpu")
	m.null("dp_rank")
	if m.list("seq_hashes", hashed) {
		m.dst = msgp.AppendUint64(m.dst, hash)
	}
	if e.legacy && m.list("block_hashes", hashed) {
		m.dst = appendInt(m.dst, int64(hash)) //nolint:gosec // Engines publish their hashes as signed numbers.
	}
	if e.object {
		m.text("object_key", ev.key)
	}
	if ev.stored {
		m.uint("base_block_idx", 0)
		m.null("parent_hash", "token_ids")
		if e.legacy {
			m.null("parent_block_hash")
		}
	}
	return m.dst
}

// fields is how many fields an event has.
func (e *encoder) fields(stored bool) uint32 {
	n := uint32(13)
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

func (m *mapped) text(name, value string) {
	m.dst = msgp.AppendString(msgp.AppendString(m.dst, name), value)
}

func (m *mapped) uint(name string, n uint64) {
	m.dst = msgp.AppendUint64(msgp.AppendString(m.dst, name), n)
}

func (m *mapped) null(names ...string) {
	for _, name := range names {
		m.dst = msgp.AppendNil(msgp.AppendString(m.dst, name))
	}
}

// list begins a list, and reports whether its one element follows; without it the list is empty.
func (m *mapped) list(name string, element bool) bool {
	n := uint32(0)
	if element {
		n = 1
	}
	m.dst = msgp.AppendArrayHeader(msgp.AppendString(m.dst, name), n)
	return element
}

// sequenceHash reads a key that is a hash as a whole: decimal, or hexadecimal after 0x or 0X, up to
// 2^64-1. No sign, no space, no underscore.
func sequenceHash(key string) (hash uint64, ok bool) {
	if key == "" || key[0] < '0' || key[0] > '9' {
		return 0, false // at once, since most keys are no hash
	}
	digits, base := key, 10
	if len(key) >= 2 && strings.EqualFold(key[:2], "0x") {
		digits, base = key[2:], 16
	}
	hash, err := strconv.ParseUint(digits, base, 64)
	return hash, err == nil
}
