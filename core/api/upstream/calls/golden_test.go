package calls

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
)

// frame is a line of a capture of upstream's client and master of one release.
type frame struct {
	Dir, Fn, Hex string
	Err          int
	Note         string
	Val          json.RawMessage
}

func (f *frame) isRequest() bool { return f.Dir == "c2s" }

// body returns the frame without its header, and the number of the function of a request.
func (f *frame) body(t testing.TB) (body []byte, function uint32) {
	b, err := hex.DecodeString(f.Hex)
	require.NoError(t, err)
	if f.isRequest() {
		return b[20:], binary.LittleEndian.Uint32(b[8:])
	}
	return b[16:], 0
}

// golden calls f with the frames of each version's capture.
func golden(t testing.TB, do func(v Version, f *frame)) {
	for v, release := range map[Version]string{V9: "0.3.9", V10: "0.3.10.post2", V11: "0.3.11.post1", V12: "0.3.12.post1", V13: "0.3.13.post1"} {
		file, err := os.Open("testdata/golden/" + release + ".jsonl.gz")
		require.NoError(t, err)
		unzipped, err := gzip.NewReader(file)
		require.NoError(t, err)
		lines := bufio.NewScanner(unzipped)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var f frame
			require.NoError(t, json.Unmarshal(lines.Bytes(), &f))
			if f.Hex != "" { // not the line about the capture
				do(v, &f)
			}
		}
		require.NoError(t, lines.Err())
		require.NoError(t, file.Close())
	}
}

// TestGolden decodes every frame of the captures, compares what it has decoded with the capture's own
// reading, and encodes it again, byte for byte.
func TestGolden(t *testing.T) {
	frames, seen := 0, map[Version]map[string]bool{}
	golden(t, func(v Version, f *frame) {
		body, id := f.body(t)
		call := named(f.Fn)
		switch {
		case f.Err != 0:
			checkError(t, f, body)
			return
		case call == nil:
			require.Equal(t, "(unknown)", f.Fn)
			require.Nil(t, Lookup(id))
			return
		case f.isRequest() && f.Note == "known function id, wrong type hash; connection stays open":
			require.Zero(t, call.Accepts(body))
			require.ErrorContains(t, call.untypedRequest(v).decode(body), "hash ec7f7e7a")
			return
		}
		require.True(t, call.Versions().Has(v), f.Fn)
		m, render := call.untypedResponse(v), render
		if f.isRequest() {
			require.Equal(t, Lookup(id).Name(), f.Fn)
			require.True(t, call.Accepts(body).Has(v), "%s in version %d", f.Fn, v)
			m, render = call.untypedRequest(v), renderRequest
		}
		require.NoError(t, m.decode(body), "%s in version %d: %s", f.Fn, v, f.Hex)
		again, err := m.append(nil, hasLiteral(body))
		require.NoError(t, err)
		require.Equal(t, hex.EncodeToString(body), hex.EncodeToString(again), "%s in version %d", f.Fn, v)
		if f.Val != nil {
			got, err := json.Marshal(render(v, m.value))
			require.NoError(t, err)
			require.Equal(t, compact(t, f.Val), string(got), "%s in version %d: %s", f.Fn, v, f.Hex)
		}
		frames++
		if seen[v] == nil {
			seen[v] = map[string]bool{}
		}
		seen[v][f.Fn] = true
	})
	require.Equal(t, 848, frames)
	for _, call := range Functions {
		for v := oldest; v <= newest; v++ {
			require.Equal(t, call.Versions().Has(v), seen[v][call.Name()], "%s in version %d", call.Name(), v)
		}
	}
}

func named(name string) untyped {
	for _, f := range Functions {
		if f.Name() == name {
			return f.(untyped)
		}
	}
	return nil
}

// checkError checks a failure of the call as a whole, whose body is a text.
func checkError(t *testing.T, f *frame, body []byte) {
	m, err := structpack.Open(body)
	require.NoError(t, err)
	var text string
	require.NoError(t, structpack.Decode(m, V9, &text, walkString))
	require.Equal(t, compact(t, f.Val), `"`+text+`"`)
}

func hasLiteral(body []byte) bool {
	m, err := structpack.Open(body)
	return err == nil && m.Literal != nil
}

// compact returns a JSON value as package json writes it, numbers as they are.
func compact(t *testing.T, raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
