package masterload_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/masterload"
)

// TestCallsMeasuresEachKind: every kind of call for every combination, and nothing is left
// in the master.
func TestCallsMeasuresEachKind(t *testing.T) {
	s := newMaster(t)
	var steps int
	r, err := masterload.Calls(t.Context(), masterload.CallsOptions{
		Master: s, Batches: []int{1, 32}, Threads: []int{1, 3}, Keys: 192, Time: time.Millisecond, Step: func(string) { steps++ },
	})
	require.NoError(t, err)
	assert.Equal(t, 4, steps)
	require.Len(t, r.Rows, 4*5)
	for i, name := range []string{"PutStart", "PutEnd", "Exist", "GetReplicas", "Remove"} {
		row := r.Rows[5+i] // one thread, batches of 32
		assert.Equal(t, name, row.Name)
		assert.Equal(t, []int{1, 32}, []int{row.Threads, row.Batch})
		assert.Positive(t, row.KeysPerSecond)
		assert.LessOrEqual(t, row.P50, row.P99)
	}
	for i := 0; i < len(r.Rows); i += 5 {
		put := r.Rows[i]
		assert.Positive(t, put.Calls)
		assert.LessOrEqual(t, put.Calls*put.Batch, 192)
		assert.Equal(t, put.Calls, r.Rows[i+1].Calls, "what began is ended")
		assert.Equal(t, put.Calls, r.Rows[i+4].Calls, "what was put is removed")
	}
	left, err := s.ListKeys(t.Context(), caller, "", "", 10)
	require.NoError(t, err)
	assert.Empty(t, left)
	segments, err := s.Segments(t.Context())
	require.NoError(t, err)
	assert.Empty(t, segments)

	var text bytes.Buffer
	r.Text(&text)
	assert.Contains(t, text.String(), "GetReplicas")
	object, err := json.Marshal(r)
	require.NoError(t, err)
	var back masterload.CallsReport
	require.NoError(t, json.Unmarshal(object, &back))
	assert.Equal(t, r, back)
}

func TestCallsRefuses(t *testing.T) {
	_, err := masterload.Calls(t.Context(), masterload.CallsOptions{Master: newMaster(t), Batches: []int{0}})
	assert.ErrorContains(t, err, "of 0")

	s := newMaster(t)
	require.NoError(t, s.Stop(t.Context()))
	_, err = masterload.Calls(t.Context(), masterload.CallsOptions{Master: s})
	assert.Error(t, err)
}
