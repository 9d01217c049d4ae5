package kvevents

import (
	"encoding/hex"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/kvevents/eventstest"
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
		var list []map[string]any
		for i, ev := range events {
			list = append(list, want(e, id+int64(i), at, ev))
		}
		var got eventstest.Message
		require.NoError(t, got.Decode(e.payload(nil, at, uint64(id), events)))
		require.Equal(t, eventstest.Message{At: at, Events: list}, got)
	})
}

// TestNumbersHaveTheirShortestForm, at every border between two of them.
func TestNumbersHaveTheirShortestForm(t *testing.T) {
	for want, n := range map[string]int64{
		"00": 0, "7f": 127, "cc80": 128, "ccff": 255, "cd0100": 256, "cdffff": 65535, "ce00010000": 65536, "ceffffffff": math.MaxUint32,
		"cf0000000100000000": 1 << 32, "cf7fffffffffffffff": math.MaxInt64,
		"ff": -1, "e0": -32, "d0df": -33, "d080": -128, "d1ff7f": -129, "d18000": -32768, "d2ffff7fff": -32769,
		"d280000000": math.MinInt32, "d3ffffffff7fffffff": math.MinInt32 - 1, "d38000000000000000": math.MinInt64,
	} {
		require.Equal(t, want, hex.EncodeToString(appendInt(nil, n)))
	}
}

// TestTextsHaveTheirShortestForm, at every border between two of them.
func TestTextsHaveTheirShortestForm(t *testing.T) {
	for n, head := range map[int]string{0: "a0", 31: "bf", 32: "d920", 255: "d9ff", 256: "da0100", 65535: "daffff", 65536: "db00010000"} {
		m := mapped{}
		m.text("", strings.Repeat("s", n))
		require.Equal(t, "a0"+head, hex.EncodeToString(m.dst[:len(m.dst)-n]))
	}
}
