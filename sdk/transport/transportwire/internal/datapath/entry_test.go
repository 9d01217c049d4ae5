package datapath

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestEntriesRoundTrip encodes and decodes entries.
func TestEntriesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := submission{
			tag: tag(rapid.Uint64().Draw(t, "tag")), region: rapid.Uint64().Draw(t, "region"), local: rapid.Uint64().Draw(t, "local"),
			length: rapid.Uint64Max(1<<63-1).Draw(t, "length"), remote: transport.RemoteID(rapid.Uint64().Draw(t, "remote")),
			offset: rapid.Uint64().Draw(t, "offset"), limit: time.Duration(rapid.Int64Min(1).Draw(t, "limit")),
			rail: transport.RailID(rapid.Uint16().Draw(t, "rail")), kind: transport.OpKind(rapid.IntRange(1, 2).Draw(t, "kind")),
			place: place(rapid.IntRange(0, 2).Draw(t, "place")),
		}
		var b [submissionSize]byte
		want.encode(b[:])
		got, err := decodeSubmission(b[:])
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, want.tag, newTag(want.tag.slot(), want.tag.generation()))

		c := completion{tag: want.tag, status: transport.OK}
		if rapid.Bool().Draw(t, "failed") {
			c.status = transport.Status(rapid.IntRange(2, 3).Draw(t, "status"))
			c.Code, c.Class = errs.TransferFail, errs.Class(rapid.IntRange(0, 4).Draw(t, "class"))
			c.Text = rapid.StringN(0, 400, 400).Draw(t, "text")
		}
		var e [completionSize]byte
		used := c.encode(&e)
		head, text, err := decodeHead(e[:completionHead])
		require.NoError(t, err)
		require.Len(t, used, completionHead+text)
		head.Text = string(e[completionHead : completionHead+text])
		c.Text = c.Text[:min(len(c.Text), maxText)]
		require.Equal(t, c, head)
	})
}

// FuzzEntries checks that a decoder either refuses an entry or returns values within the bounds on
// which other code relies.
func FuzzEntries(f *testing.F) {
	f.Add(make([]byte, completionSize))
	f.Add([]byte(strings.Repeat("\xff", completionSize)))
	ok := completion{tag: 1, status: transport.OK}
	var b [completionSize]byte
	f.Add(append([]byte(nil), ok.encode(&b)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e [completionSize]byte
		copy(e[:], data)
		c, text, err := decodeHead(e[:completionHead])
		if err == nil {
			require.LessOrEqual(t, text, maxText)
			require.Contains(t, []transport.Status{transport.OK, transport.Failed, transport.Quarantined}, c.status)
			require.Equal(t, c.status == transport.OK, c.Code == 0)
			require.LessOrEqual(t, c.Class, errs.ClassPermanent)
		}
		table := newTable(4)
		table.take()
		if s, err := table.find(c.tag); err == nil {
			require.True(t, s.used)
		}
		if s, err := decodeSubmission(e[:submissionSize]); err == nil {
			require.Positive(t, s.limit)
			require.Less(t, s.length, uint64(1)<<63)
		}
	})
}

// TestTableModel compares the table with a set of tags in flight. The table must refuse every other
// tag, including those that were valid before.
func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "slots")
		table := newTable(n)
		open := map[tag]uint64{}
		var old []tag
		next := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				if len(table.free) == 0 {
					require.Len(t, open, n)
					return
				}
				i, s := table.take()
				s.id = next
				g := newTag(i, s.generation)
				require.NotContains(t, open, g)
				require.NotContains(t, old, g, "a tag is never used again")
				open[g] = next
				next++
			},
			"complete": func(t *rapid.T) {
				for g, id := range open {
					s, err := table.find(g)
					require.NoError(t, err)
					require.Equal(t, id, s.id)
					table.release(g.slot())
					delete(open, g)
					old = append(old, g)
					break
				}
			},
			"replay": func(t *rapid.T) {
				g := tag(rapid.Uint64().Draw(t, "tag"))
				if len(old) > 0 && rapid.Bool().Draw(t, "old") {
					g = rapid.SampledFrom(old).Draw(t, "which")
				} else if rapid.Bool().Draw(t, "near") {
					g = newTag(uint32(g)%uint32(n+1), uint32(g>>40)%4)
				}
				if _, ok := open[g]; ok {
					return
				}
				_, err := table.find(g)
				require.Error(t, err, "%#x", g)
			},
			"": func(t *rapid.T) { require.Equal(t, len(open), table.inUse()) },
		})
	})
}

// TestStageModel checks that no two extents overlap, that none is lost, that returned extents
// merge, and that a path that holds nothing gets what is free.
func TestStageModel(t *testing.T) {
	type held struct {
		extent
		by *Path
	}
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.IntRange(1, 32).Draw(t, "pages")
		s := newStage(make([]byte, pages*stageAlign))
		var taken []held
		paths := []*Path{{}, {}, {}}
		sum := func(of *Path) (n int) {
			for _, x := range taken {
				if of == nil || x.by == of {
					n += x.size
				}
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.IntRange(1, s.chunkMax()).Draw(t, "bytes")
				p := rapid.SampledFrom(paths).Draw(t, "path")
				had, free := sum(p), len(s.mem)-sum(nil)
				e, ok := s.take(n, p)
				s.forget(p)
				if !ok {
					require.True(t, had > 0 || free == 0, "%d bytes are free but the path gets none", free)
					return
				}
				require.True(t, e.size >= n || had == 0, "%d of %d bytes", e.size, n)
				require.True(t, had == 0 || had+e.size <= free-e.size, "the path had %d and got %d of %d", had, e.size, free)
				for _, x := range taken {
					require.False(t, e.at < x.at+x.size && x.at < e.at+e.size, "%v and %v", e, x)
				}
				require.LessOrEqual(t, e.at+e.size, len(s.mem))
				taken = append(taken, held{e, p})
			},
			"give": func(t *rapid.T) {
				if len(taken) > 0 {
					i := rapid.IntRange(0, len(taken)-1).Draw(t, "which")
					s.give(taken[i].extent, taken[i].by)
					taken = append(taken[:i], taken[i+1:]...)
				}
			},
		})
		for _, x := range taken {
			s.give(x.extent, x.by)
		}
		require.Equal(t, []extent{{0, len(s.mem)}}, s.free)
		require.Equal(t, len(s.mem), s.freeBytes)
		require.Empty(t, s.held)
	})
}

// TestStageShare checks that a greedy path leaves space for others, and that a quarantined extent
// counts for no path.
func TestStageShare(t *testing.T) {
	s := newStage(make([]byte, 16*stageAlign))
	greedy, other := &Path{}, &Path{}
	var first extent
	for n := 0; ; n++ {
		e, ok := s.take(stageAlign, greedy)
		if !ok {
			require.Equal(t, 8, n, "half of the stage")
			break
		}
		if n == 0 {
			first = e
		}
	}
	require.True(t, s.waiting[greedy])
	e, ok := s.take(s.chunkMax(), other)
	require.True(t, ok)
	require.Equal(t, s.chunkMax(), e.size)
	s.lose(first, greedy)
	require.Equal(t, 7*stageAlign, s.held[greedy])
	require.Equal(t, 4*stageAlign, s.freeBytes, "a lost extent is not free")
	require.Equal(t, 4*stageAlign, s.held[other])
}
