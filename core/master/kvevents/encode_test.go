package kvevents

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/kvevents/msgpack"
)

// golden reads a file of hexadecimal lines; what follows # is a comment.
func golden(t *testing.T, file string) []byte {
	text, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		b.WriteString(strings.Join(strings.Fields(line), ""))
	}
	out, err := hex.DecodeString(b.String())
	require.NoError(t, err)
	return out
}

func TestGoldenMessage(t *testing.T) {
	e := encoder{backend: "pool-a", legacy: true, object: true}
	payload := e.payload(nil, 1739145600000, 41, []event{
		{stored: true, tenant: "default", key: "0xfedcba9876543210"},
		{tenant: "blue", key: "no hash", group: "g1"},
	})
	require.Equal(t, hex.Dump(golden(t, "message.hex")), hex.Dump(message(258, payload)))
}

// want is an event as the contract describes it.
func want(e encoder, id, at int64, ev event) map[string]any {
	m := map[string]any{
		"event_id": id, "timestamp": at, "event_type": "removed", "model_name": nil, "block_size": nil, "additional_salt": nil, "lora_name": nil,
		"tenant_id": ev.tenant, "backend_id": e.backend, "group_id": nil, "medium": "cpu", "dp_rank": nil, "seq_hashes": []any{},
	}
	if ev.group != "" {
		m["group_id"] = ev.group
	}
	if e.legacy {
		m["type"], m["block_hashes"] = "BlockRemoved", []any{}
	}
	if e.object {
		m["object_key"] = ev.key
	}
	if h, ok := sequenceHash(ev.key); ok {
		m["seq_hashes"] = []any{int64(h)}
		if int64(h) < 0 {
			m["seq_hashes"] = []any{h}
		}
		if e.legacy {
			m["block_hashes"] = []any{int64(h)}
		}
	}
	if ev.stored {
		m["event_type"], m["base_block_idx"], m["parent_hash"], m["token_ids"] = "stored", int64(0), nil, nil
		if e.legacy {
			m["type"], m["parent_block_hash"] = "BlockStored", nil
		}
	}
	return m
}

func TestEventsHaveExactlyTheirFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := encoder{backend: rapid.String().Draw(t, "backend"), legacy: rapid.Bool().Draw(t, "legacy"), object: rapid.Bool().Draw(t, "object")}
		key := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9]{1,20}`), rapid.StringMatching(`0x[0-9a-f]{1,16}`))
		events := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
			return event{rapid.Bool().Draw(t, "stored"), rapid.String().Draw(t, "tenant"), key.Draw(t, "key"), rapid.String().Draw(t, "group")}
		}), 0, maxBatch).Draw(t, "events")
		id, at := rapid.Int64Range(1, 1<<50).Draw(t, "id"), rapid.Int64Range(1, 1<<45).Draw(t, "at")
		list := []any{}
		for i, ev := range events {
			list = append(list, want(e, id+int64(i), at, ev))
		}
		got, err := msgpack.Decode(e.payload(nil, at, uint64(id), events))
		require.NoError(t, err)
		require.Equal(t, []any{at, list, int64(0)}, got)
	})
}
