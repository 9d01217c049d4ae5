package trace

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func all(src Source) ([]Request, error) {
	var out []Request
	for {
		r, err := src.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
}

func TestReadsARequest(t *testing.T) {
	in := "\n" + `{"timestamp": 27000, "input_length": 1030, "output_length": 5, "hash_ids": [0, 7, 18446744073709551615], "new": {"a": [1]}}` + "\r\n\n" +
		`{"timestamp":0,"hash_ids":[]}`
	got, err := all(NewReader(strings.NewReader(in)))
	require.NoError(t, err)
	require.Equal(t, []Request{
		{Seq: 0, Timestamp: 27 * time.Second, Session: NoSession, InputTokens: 1030, OutputTokens: 5, Blocks: []uint64{0, 7, 1<<64 - 1}},
		{Seq: 1, Session: NoSession, Blocks: []uint64{}},
	}, got)
}

func TestRefusals(t *testing.T) {
	ok := `{"timestamp":1,"hash_ids":[1]}` + "\n"
	cases := []struct {
		name, line string
		want       error
	}{
		{"not JSON", `timestamp=1`, ErrSyntax},
		{"cut", `{"timestamp":1,"hash_ids":[1`, ErrSyntax},
		{"two objects", `{"timestamp":1,"hash_ids":[]}{}`, ErrSyntax},
		{"list", `[1,2]`, ErrSyntax},
		{"ids are text", `{"timestamp":1,"hash_ids":["a"]}`, ErrRange},
		{"null id", `{"timestamp":1,"hash_ids":[null]}`, ErrRange},
		{"negative id", `{"timestamp":1,"hash_ids":[-1]}`, ErrRange},
		{"id of 65 bits", `{"timestamp":1,"hash_ids":[18446744073709551616]}`, ErrRange},
		{"fraction", `{"timestamp":1,"hash_ids":[1.5]}`, ErrRange},
		{"no timestamp", `{"hash_ids":[1]}`, ErrMissing},
		{"no ids", `{"timestamp":1}`, ErrMissing},
		{"null ids", `{"timestamp":1,"hash_ids":null}`, ErrMissing},
		{"negative time", `{"timestamp":-1,"hash_ids":[1]}`, ErrRange},
		{"huge time", `{"timestamp":9000000000000000000,"hash_ids":[1]}`, ErrRange},
		{"time overflows", `{"timestamp":99999999999999999999,"hash_ids":[1]}`, ErrSyntax},
		{"negative input", `{"timestamp":1,"input_length":-1,"hash_ids":[1]}`, ErrRange},
		{"huge output", `{"timestamp":1,"output_length":2000000000,"hash_ids":[1]}`, ErrRange},
		{"too many ids", `{"timestamp":1,"hash_ids":[` + strings.Repeat("1,", MaxBlocks) + `1]}`, ErrRange},
		{"too long", `{"timestamp":1,"pad":"` + strings.Repeat("x", MaxLine) + `","hash_ids":[1]}`, ErrLineTooLong},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader(strings.NewReader(ok + c.line + "\n" + ok))
			got, err := all(r)
			require.Len(t, got, 1)
			require.ErrorIs(t, err, c.want)
			require.True(t, errs.Is(err, errs.InvalidParams))
			var le *LineError
			require.ErrorAs(t, err, &le)
			require.Equal(t, 2, le.Line)
			_, again := r.Next()
			require.Equal(t, err, again, "an error is final")
		})
	}
}

func TestLineBoundIsExact(t *testing.T) {
	head, tail := `{"timestamp":1,"pad":"`, `","hash_ids":[1]}`
	line := head + strings.Repeat("x", MaxLine-len(head)-len(tail)) + tail
	require.Len(t, line, MaxLine)
	got, err := all(NewReader(strings.NewReader(line + "\n")))
	require.NoError(t, err)
	require.Len(t, got, 1)
	_, err = all(NewReader(strings.NewReader(line + " \n")))
	require.ErrorIs(t, err, ErrLineTooLong)
}

func TestReadErrorNamesTheLine(t *testing.T) {
	in := io.MultiReader(strings.NewReader("{\"timestamp\":1,\"hash_ids\":[1]}\n"), iotest.ErrReader(io.ErrClosedPipe))
	got, err := all(NewReader(in))
	require.Len(t, got, 1)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.ErrorContains(t, err, "line 2")
}

func TestSample(t *testing.T) {
	f, err := os.Open("testdata/sample.jsonl")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	reqs, err := all(NewReader(iotest.OneByteReader(f)))
	require.NoError(t, err)
	require.Len(t, reqs, 60)

	var buf bytes.Buffer
	w := NewWriter(&buf)
	for _, r := range reqs {
		require.NoError(t, w.Write(r))
	}
	again, err := all(NewReader(&buf))
	require.NoError(t, err)
	require.Equal(t, reqs, again)
}

func TestLimit(t *testing.T) {
	reqs := []Request{{Seq: 0}, {Seq: 1}, {Seq: 2}}
	got, err := all(Limit(FromSlice(reqs), 2))
	require.NoError(t, err)
	require.Equal(t, reqs[:2], got)
	got, err = all(Limit(FromSlice(reqs), 9))
	require.NoError(t, err)
	require.Equal(t, reqs, got)
}

func FuzzReader(f *testing.F) {
	sample, err := os.ReadFile("testdata/sample.jsonl")
	require.NoError(f, err)
	f.Add(sample)
	f.Add([]byte(`{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4, 5]}`))
	f.Add([]byte("\n\r\n{\"timestamp\":-1,\"hash_ids\":[null]}"))
	f.Add([]byte(`{"timestamp":1e3,"hash_ids":[1e1],"hash_ids":[-0]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		reqs, err := all(NewReader(bytes.NewReader(in)))
		if err != nil {
			var le *LineError
			require.ErrorAs(t, err, &le)
			require.Positive(t, le.Line)
		}
		var buf bytes.Buffer
		w := NewWriter(&buf)
		for i, r := range reqs {
			require.Equal(t, i, r.Seq)
			require.False(t, r.Timestamp < 0 || r.Timestamp > MaxTimestamp || r.InputTokens < 0 || r.OutputTokens < 0 || len(r.Blocks) > MaxBlocks)
			require.NoError(t, w.Write(r))
		}
		again, err := all(NewReader(&buf))
		require.NoError(t, err)
		require.Equal(t, reqs, again)
	})
}
