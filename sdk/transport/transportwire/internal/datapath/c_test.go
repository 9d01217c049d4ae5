package datapath

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestCReadsAndWritesEntries compares the library in C with this package: what a submission means and whether it is valid, and
// that the host takes each completion that the library writes.
func TestCReadsAndWritesEntries(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler (cc) for the library of rings in C")
	}
	const shm = "../../../../x/shm"
	bin := filepath.Join(t.TempDir(), "peer")
	out, err := exec.Command(cc, "-std=c11", "-pthread", "-fsanitize=address,undefined", "-I"+shm+"/../../c", "-o", bin,
		shm+"/../../c/ring.c", shm+"/testdata/peer.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Run("submissions", func(t *testing.T) { readsSubmissions(t, bin) })
	t.Run("completions", func(t *testing.T) { writesCompletions(t, bin) })
}

// readsSubmissions has the program in C read a valid entry, and random ones, some of which are damaged.
func readsSubmissions(t *testing.T, bin string) {
	const slots = 512
	var entries bytes.Buffer
	var want strings.Builder
	give := func(entry []byte) {
		entries.Write(entry)
		s, err := decodeSubmission(entry)
		if err != nil || s.tag.slot() >= slots {
			want.WriteString("corrupt\n")
			return
		}
		fmt.Fprintf(&want, "%d %d %d %d %d %d %d %d %d %d\n", s.tag, s.region, s.local, s.length, s.remote, s.offset, int64(s.limit), s.rail, s.kind, s.place)
	}
	good := submission{tag: newTag(7, 9), region: 1, local: 2, length: 3, remote: 4, offset: 5, limit: 6, rail: 8, kind: transport.Write, place: inRegion}
	entry := make([]byte, submissionSize)
	good.encode(entry)
	give(entry)
	require.Contains(t, want.String(), " ", "it is valid")
	rapid.Check(t, func(t *rapid.T) {
		s := submission{
			tag: newTag(rapid.Uint32Range(0, slots+1).Draw(t, "slot"), rapid.Uint32().Draw(t, "generation")), region: rapid.Uint64().Draw(t, "region"),
			local: rapid.Uint64().Draw(t, "local"), length: rapid.Uint64().Draw(t, "length"), remote: transport.RemoteID(rapid.Uint64().Draw(t, "remote")),
			offset: rapid.Uint64().Draw(t, "offset"), limit: time.Duration(rapid.Int64().Draw(t, "limit")), rail: transport.RailID(rapid.Uint16().Draw(t, "rail")),
			kind: transport.OpKind(rapid.Uint8Range(0, 3).Draw(t, "kind")), place: place(rapid.Uint8Range(0, 3).Draw(t, "place")),
		}
		entry := make([]byte, submissionSize)
		s.encode(entry)
		if rapid.Bool().Draw(t, "damaged") {
			entry[rapid.IntRange(0, submissionSize-1).Draw(t, "at")] ^= rapid.Byte().Draw(t, "bits")
		}
		give(entry)
	})
	cmd := exec.CommandContext(t.Context(), bin, "entries", strconv.Itoa(slots))
	cmd.Stdin = &entries
	got, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, want.String(), string(got))
}

func writesCompletions(t *testing.T, bin string) {
	long := strings.Repeat("x", maxText-1) + "é and more"
	for _, c := range []struct {
		completion
		text string // as it arrives
		ok   bool
	}{
		{completion{tag: newTag(7, 9), status: transport.OK}, "", true},
		{completion{tag: 1 << 63, status: transport.Failed, Failure: Failure{errs.TransferFail, errs.ClassTransientPeer, "the peer is gone"}}, "the peer is gone", true},
		{completion{tag: 3, status: transport.Quarantined, Failure: Failure{errs.RPCTimeout, errs.ClassPermanent, long}}, long[:maxText-1], true},
		{completion{tag: 3, status: transport.Quarantined, Failure: Failure{errs.RPCTimeout, errs.ClassPermanent, long[1:]}}, long[1 : maxText+1], true},
		{completion{tag: 3, status: transport.OK, Failure: Failure{Text: "but"}}, "", false},
		{completion{tag: 3, status: transport.Failed}, "", false},
		{completion{tag: 3, status: transport.Failed, Failure: Failure{errs.RPCTimeout, errs.ClassPermanent + 1, ""}}, "", false},
		{completion{tag: 3, status: 4, Failure: Failure{errs.RPCTimeout, 0, ""}}, "", false},
	} {
		u := func(n int64) string { return strconv.FormatInt(n, 10) }
		got, err := exec.CommandContext(t.Context(), bin, "completion", strconv.FormatUint(uint64(c.tag), 10), u(int64(c.status)), u(int64(c.Code)), u(int64(c.Class)), c.Text).Output()
		if !c.ok {
			require.Error(t, err, "%+v", c.completion)
			continue
		}
		require.NoError(t, err, "%+v", c.completion)
		require.Len(t, got, completionSize)
		back, text, err := decodeHead(got)
		require.NoError(t, err)
		back.Text = string(got[completionHead:][:text])
		want := c.completion
		want.Text = c.text
		require.Equal(t, want, back)
	}
}
