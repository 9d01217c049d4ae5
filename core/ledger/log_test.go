package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
)

// heap is a Memory that moves with every Resize and can be copied, as a dying process leaves it.
type heap struct {
	b    []byte
	most int // 0 for no bound
}

func (h *heap) Bytes() []byte { return h.b }

func (h *heap) Resize(n int) error {
	if h.most > 0 && n > h.most {
		return errors.New("the machine has no memory left")
	}
	b := make([]byte, n)
	copy(b, h.b)
	h.b = b
	return nil
}

const segmentSize = 1 << 30

func testIdentity() Identity {
	return Identity{Cluster: "pool", Segment: model.SegmentID{Hi: 1, Lo: 2}, Size: segmentSize}
}

func newLog(t require.TestingT) (*Log, *heap) {
	mem := &heap{}
	l, err := Create(mem, testIdentity())
	require.NoError(t, err)
	return l, mem
}

// entries reads a ledger through a snapshot.
func entries(t require.TestingT, l *Log) map[Put]Entry {
	out := map[Put]Entry{}
	last := uint64(0)
	_, err := l.Snapshot(200, func(batch []byte) error {
		return Entries(batch, func(e *Entry) error {
			require.NotContains(t, out, e.Put)
			require.GreaterOrEqual(t, e.Extents[0].Offset, last, "a snapshot is in the order of offsets")
			last = e.Extents[0].Offset
			out[e.Put] = *e
			return nil
		})
	})
	require.NoError(t, err)
	require.Len(t, out, l.Len())
	return out
}

func anObject(t *rapid.T, n uint64) Object {
	o := Object{
		Name:  rapid.StringN(1, 60, 200).Draw(t, "name"),
		Parts: 1,
		Group: rapid.SampledFrom([]string{"", "", "g"}).Draw(t, "group"),
		Value: Put(n - rapid.Uint64Range(0, 3).Draw(t, "value")%n),
		Type:  rapid.SampledFrom([]uint8{0, 3}).Draw(t, "type"),
	}
	if o.Name == "" {
		o.Name = "k"
	}
	if rapid.Bool().Draw(t, "marked") {
		o.Flags = HardPin
		o.Writer = model.ClientID{Hi: n, Lo: 9}
	}
	extents := rapid.IntRange(1, 3).Draw(t, "extents")
	for range extents {
		e := Extent{rapid.Uint64Range(0, segmentSize-1).Draw(t, "offset"), rapid.Uint64Range(1, 1<<20).Draw(t, "length")}
		e.Length = min(e.Length, segmentSize-e.Offset)
		o.Extents = append(o.Extents, e)
		o.Size += e.Length
	}
	o.Parts = uint32(extents)
	if rapid.Bool().Draw(t, "striped") {
		o.Part, o.Parts = 2, o.Parts+2
		o.Size += 4096
	}
	return o
}

// modelled is a ledger beside what it should hold.
type modelled struct {
	log     *Log
	mem     *heap
	want    map[Put]Entry
	epoch   Epoch
	seq     Seq
	put     Put
	batches [][]byte // of all epochs
	images  [][]byte // what a process that dies at a step leaves
}

func newModelled(t *rapid.T) *modelled {
	m := &modelled{want: map[Put]Entry{}}
	m.log, m.mem = newLog(t)
	return m
}

func (m *modelled) watch(l *Log) {
	l.step = func() { m.images = append(m.images, slices.Clone(m.mem.b)) }
}

// fill draws records for a batch and applies them to the model.
func (m *modelled) fill(t *rapid.T, want map[Put]Entry) *Batch {
	b := &Batch{}
	for range rapid.IntRange(0, 8).Draw(t, "records") {
		have := slices.SortedFunc(maps.Keys(want), func(x, y Put) int { return cmp.Compare(x, y) })
		p := Put(0)
		if len(have) > 0 {
			p = rapid.SampledFrom(have).Draw(t, "put")
		}
		e := want[p]
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0, 1:
			m.put += Put(rapid.Uint64Range(1, 1<<40).Draw(t, "step"))
			o := anObject(t, uint64(m.put))
			b.Begin(m.put, &o)
			want[m.put] = Entry{Version: Version{m.epoch, m.put}, State: Writing, Object: o}
		case 2, 3:
			if p != 0 && e.State == Writing {
				e.Ended, e.State, e.Ending = true, Complete, Ending{model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(p) & 0xffffffff}, 77, nil}
				if rapid.Bool().Draw(t, "grains") {
					e.Grains = rapid.SliceOfN(rapid.Uint32(), 1, 5).Draw(t, "checksums")
				}
				b.Commit(p, e.Ending)
				want[p] = e
			}
		case 4:
			if p != 0 && e.State != Held {
				e.State = Held
				b.Unlink(p)
				want[p] = e
			}
		case 5:
			if p != 0 {
				b.Gone(p)
				delete(want, p)
			}
		}
	}
	return b
}

// append makes a batch and appends it. Whatever a process that dies meanwhile leaves opens as the state
// before or after.
func (m *modelled) append(t *rapid.T) {
	before, after := maps.Clone(m.want), maps.Clone(m.want)
	b := m.fill(t, after).Bytes(m.epoch, m.seq+1)
	m.images = nil
	m.watch(m.log)
	got, err := m.log.Append(b)
	m.log.step = nil
	require.NoError(t, err)
	m.seq++
	require.Equal(t, m.seq, got)
	m.want = after
	m.batches = append(m.batches, slices.Clone(b))
	for i, image := range m.images {
		l, err := Open(&heap{b: image})
		require.NoError(t, err, "step %d of %d", i, len(m.images))
		have := entries(t, l)
		if i == len(m.images)-1 {
			require.Equal(t, after, have)
			require.Equal(t, m.seq, l.Seq())
		} else {
			require.Equal(t, before, have, "step %d of %d", i, len(m.images))
			require.Equal(t, m.seq-1, l.Seq())
		}
	}
}

// TestLogAgainstModel: a ledger holds what was appended, once and in order, whatever is repeated, missing or
// fenced, wherever its process dies, and a copy that follows it holds the same.
func TestLogAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModelled(t)
		fence := func(t *rapid.T) {
			m.epoch += Epoch(rapid.IntRange(1, 3).Draw(t, "epochs"))
			seq, err := m.log.Fence(m.epoch, time.Second)
			require.NoError(t, err)
			require.Equal(t, m.seq, seq)
		}
		fence(t)
		t.Repeat(map[string]func(*rapid.T){
			"append":  m.append,
			"append2": m.append,
			"fence":   fence,
			"repeat": func(t *rapid.T) {
				if len(m.batches) == 0 {
					t.Skip("nothing was appended")
				}
				b := rapid.SampledFrom(m.batches).Draw(t, "batch")
				_, err := m.log.Append(b)
				if f, _ := parse(b); f.epoch < m.epoch {
					require.ErrorIs(t, err, ErrFenced)
				} else {
					require.NoError(t, err)
				}
			},
			"gap": func(t *rapid.T) {
				_, err := m.log.Append((&Batch{}).Bytes(m.epoch, m.seq+2))
				require.ErrorIs(t, err, ErrGap)
				_, err = m.log.Append((&Batch{}).Bytes(m.epoch+1, m.seq+1))
				require.ErrorIs(t, err, ErrGap)
			},
			"deposed": func(t *rapid.T) {
				var b Batch
				b.Begin(m.put+1, &Object{Name: "late", Size: 1, Parts: 1, Extents: []Extent{{0, 1}}})
				_, err := m.log.Append(b.Bytes(m.epoch-1, m.seq+1))
				require.ErrorIs(t, err, ErrFenced)
				_, err = m.log.Fence(m.epoch-1, time.Second)
				require.ErrorIs(t, err, ErrFenced)
			},
			"reopen": func(t *rapid.T) {
				for i := m.log.area.end(); i < uint64(len(m.mem.b)); i++ {
					m.mem.b[i] = 0xa5 // What lies behind the log does not matter.
				}
				l, err := Open(m.mem)
				require.NoError(t, err)
				require.Equal(t, testIdentity(), l.Identity())
				m.log = l
			},
			"rewrite": func(t *rapid.T) {
				m.images = nil
				m.watch(m.log)
				require.NoError(t, m.log.rewrite())
				m.log.step = nil
				for _, image := range m.images {
					l, err := Open(&heap{b: image})
					require.NoError(t, err)
					require.Equal(t, m.want, entries(t, l))
					require.Equal(t, m.seq, l.Seq())
				}
			},
			"since": func(t *rapid.T) {
				from := Seq(rapid.Uint64Range(0, uint64(m.seq)).Draw(t, "from"))
				most := rapid.IntRange(0, 2000).Draw(t, "most")
				if from < m.log.area.before {
					_, _, err := m.log.Since(from, most)
					require.ErrorIs(t, err, ErrGap)
					return
				}
				for at := from; ; {
					b, to, err := m.log.Since(at, most)
					require.NoError(t, err)
					if len(b) == 0 {
						require.Equal(t, m.seq, to)
						return
					}
					require.Greater(t, to, at)
					first, err := parse(b)
					require.NoError(t, err)
					require.True(t, len(b) <= max(most, first.size)+MaxBatch)
					last, err := Changes(b, at, func(*Change) error { return nil })
					require.NoError(t, err)
					require.Equal(t, to, last)
					at = to
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, m.want, entries(t, m.log))
				require.Equal(t, m.seq, m.log.Seq())
				require.Equal(t, m.epoch, m.log.Fenced())
				require.Equal(t, m.epoch > 0, m.log.Lease() == time.Second)
			},
		})
	})
}

// TestRewriting: a ledger in which objects come and go does not grow, and one whose objects stay has their
// bytes twice at most.
func TestRewriting(t *testing.T) {
	l, mem := newLog(t)
	_, err := l.Fence(5, time.Second)
	require.NoError(t, err)
	const alive = 1000
	for i := range Put(100_000) {
		var b Batch
		b.Begin(i+1, &Object{Name: fmt.Sprintf("%040d", i), Size: 4096, Parts: 1, Extents: []Extent{{4096 * uint64(i%alive), 4096}}})
		b.Commit(i+1, Ending{Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: 0x9e3779b9}})
		if i >= alive {
			b.Gone(i + 1 - alive)
		}
		_, err := l.Append(b.Bytes(5, Seq(i+1)))
		require.NoError(t, err)
	}
	require.Equal(t, alive, l.Len())
	require.Less(t, len(mem.b), alive*100*4+headerSize+leastArea)
	l, err = Open(mem)
	require.NoError(t, err)
	require.Equal(t, alive, l.Len())
	require.Equal(t, Seq(100_000), l.Seq())
}

// TestBytesOfAKey: what begin and commit of an object with a key of 40 bytes cost on the wire.
func TestBytesOfAKey(t *testing.T) {
	var b Batch
	const n = 128
	for i := range Put(n) {
		p := Put(1_764_000_000)<<32 + i
		b.Begin(p, &Object{Name: fmt.Sprintf("%040d", i), Size: 1 << 20, Parts: 1, Extents: []Extent{{uint64(i) << 20 << 6, 1 << 20}}})
	}
	for i := range Put(n) {
		b.Commit(Put(1_764_000_000)<<32+i, Ending{Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: 0xfe3779b9}})
	}
	require.LessOrEqual(t, b.Size()/n, 64)
}

// TestMemoryRunsOut: a ledger that cannot grow refuses a batch and stays as it was.
func TestMemoryRunsOut(t *testing.T) {
	mem := &heap{most: headerSize + leastArea}
	l, err := Create(mem, testIdentity())
	require.NoError(t, err)
	_, err = l.Fence(1, time.Second)
	require.NoError(t, err)
	last := Seq(0)
	for i := Seq(1); ; i++ {
		var b Batch
		b.Begin(Put(i), &Object{Name: "key", Size: 1, Parts: 1, Extents: []Extent{{uint64(i), 1}}})
		if _, err = l.Append(b.Bytes(1, i)); err != nil {
			break
		}
		last = i
	}
	require.ErrorContains(t, err, "no memory left")
	require.Equal(t, last, l.Seq())
	require.Len(t, entries(t, l), int(last))
	l, err = Open(mem)
	require.NoError(t, err)
	require.Len(t, entries(t, l), int(last))
}

// TestContradictions: a batch that contradicts the ledger, or itself, changes nothing.
func TestContradictions(t *testing.T) {
	one := func(name string, e Extent) *Object {
		return &Object{Name: name, Size: e.Length, Parts: 1, Extents: []Extent{e}}
	}
	for name, fill := range map[string]func(b *Batch){
		"the end of no put":     func(b *Batch) { b.Commit(9, Ending{}) },
		"no put is unlinked":    func(b *Batch) { b.Unlink(9) },
		"no put is gone":        func(b *Batch) { b.Gone(9) },
		"a put begins twice":    func(b *Batch) { b.Begin(1, one("k", Extent{0, 1})) },
		"unlinked, then ended":  func(b *Batch) { b.Unlink(1); b.Commit(1, Ending{}) },
		"unlinked twice":        func(b *Batch) { b.Unlink(1); b.Unlink(1) },
		"gone twice":            func(b *Batch) { b.Gone(1); b.Gone(1) },
		"behind the segment":    func(b *Batch) { b.Begin(2, one("k", Extent{segmentSize - 1, 2})) },
		"an extent that wraps":  func(b *Batch) { b.Begin(2, one("k", Extent{1<<64 - 1, 2})) },
		"no name":               func(b *Batch) { b.Begin(2, one("", Extent{0, 1})) },
		"an extent of no bytes": func(b *Batch) { b.Begin(2, one("k", Extent{0, 0})) },
		"an unknown flag": func(b *Batch) {
			b.Begin(2, &Object{Name: "k", Size: 1, Parts: 1, Extents: []Extent{{0, 1}}, Flags: 128})
		},
		"more parts than it has": func(b *Batch) { b.Begin(2, &Object{Name: "k", Size: 1, Part: 1, Parts: 1, Extents: []Extent{{0, 1}}}) },
		"a size that is not its parts": func(b *Batch) {
			b.Begin(2, &Object{Name: "k", Size: 5, Parts: 1, Extents: []Extent{{0, 1}}})
		},
		"a good record before a bad one": func(b *Batch) { b.Begin(2, one("k", Extent{0, 1})); b.Commit(9, Ending{}) },
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newLog(t)
			_, err := l.Fence(1, time.Second)
			require.NoError(t, err)
			var b Batch
			b.Begin(1, one("first", Extent{0, 1}))
			_, err = l.Append(b.Bytes(1, 1))
			require.NoError(t, err)
			before := entries(t, l)
			b.Reset()
			fill(&b)
			_, err = l.Append(b.Bytes(1, 2))
			require.ErrorIs(t, err, ErrDamaged)
			require.Equal(t, before, entries(t, l))
			require.Equal(t, Seq(1), l.Seq())
			b.Reset()
			b.Begin(3, one("next", Extent{5, 1}))
			_, err = l.Append(b.Bytes(1, 2))
			require.NoError(t, err, "it goes on")
		})
	}
}

// TestFlippedBits: no flipped bit of the log or of the identity goes unnoticed.
func TestFlippedBits(t *testing.T) {
	l, mem := newLog(t)
	_, err := l.Fence(1, time.Second)
	require.NoError(t, err)
	for i := range Seq(3) {
		var b Batch
		b.Begin(Put(i)+1, &Object{Name: "key", Size: 10, Parts: 1, Extents: []Extent{{uint64(i) * 10, 10}}})
		b.Commit(Put(i)+1, Ending{Checksum: model.Checksum{Kind: 1, Value: 5}})
		_, err := l.Append(b.Bytes(1, i+1))
		require.NoError(t, err)
	}
	flip := func(at int) {
		for bit := range 8 {
			mem.b[at] ^= 1 << bit
			_, err := Open(mem)
			require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, ErrLayout), "bit %d of byte %d: %v", bit, at, err)
			mem.b[at] ^= 1 << bit
		}
	}
	for at := range identityTo {
		flip(at)
	}
	for at := int(l.area.start); at < int(l.area.end()); at++ {
		flip(at)
	}
	_, err = Open(mem)
	require.NoError(t, err)
}

// FuzzAppend: whatever arrives, the ledger refuses it or stays one that can be read.
func FuzzAppend(f *testing.F) {
	var b Batch
	b.Begin(1, &Object{Name: "key", Size: 10, Parts: 3, Part: 1, Extents: []Extent{{0, 5}}, Group: "g", Flags: Copied})
	b.Commit(1, Ending{Checksum: model.Checksum{Kind: 1, Value: 5}})
	b.Unlink(1)
	f.Add(slices.Clone(b.Bytes(1, 1)[frameSize:]))
	f.Fuzz(func(t *testing.T, records []byte) {
		l, mem := newLog(t)
		_, err := l.Fence(1, time.Second)
		require.NoError(t, err)
		b := Batch{b: append(make([]byte, frameSize), records...)}
		if _, err := l.Append(b.Bytes(1, 1)); err != nil {
			require.Zero(t, l.Len())
		}
		have := entries(t, l)
		l, err = Open(mem)
		require.NoError(t, err)
		require.Equal(t, have, entries(t, l))
	})
}

// FuzzOpen: a memory that holds anything is refused or can be read.
func FuzzOpen(f *testing.F) {
	l, mem := newLog(f)
	_, err := l.Fence(1, time.Second)
	require.NoError(f, err)
	var b Batch
	b.Begin(1, &Object{Name: "key", Size: 10, Parts: 1, Extents: []Extent{{0, 10}}})
	_, err = l.Append(b.Bytes(1, 1))
	require.NoError(f, err)
	f.Add(uint16(wordActive), uint64(1))
	f.Add(uint16(wordArea0), uint64(1<<63))
	f.Add(uint16(headerSize), uint64(1<<63))
	f.Fuzz(func(t *testing.T, at uint16, v uint64) {
		image := slices.Clone(mem.b)
		if int(at)+8 > len(image) {
			return
		}
		word(image, int(at)&^7).Store(v)
		l, err := Open(&heap{b: image})
		if err == nil {
			entries(t, l)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	l, _ := newLog(b)
	_, err := l.Fence(1, time.Second)
	require.NoError(b, err)
	names := make([]string, 128)
	for i := range names {
		names[i] = fmt.Sprintf("%040d", i)
	}
	b.ReportAllocs()
	p, s := Put(1), Seq(1)
	var batch Batch
	for b.Loop() {
		batch.Reset()
		for i := range names {
			o := Object{Name: names[i], Size: 1 << 12, Parts: 1, Extents: []Extent{{uint64(i) << 12, 1 << 12}}}
			batch.Begin(p, &o)
			batch.Commit(p, Ending{Checksum: model.Checksum{Kind: 1, Value: 0xdeadbeef}})
			if p > 1<<17 {
				batch.Gone(p - 1<<17)
			}
			p++
		}
		if _, err := l.Append(batch.Bytes(1, s)); err != nil {
			b.Fatal(err)
		}
		s++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/128, "ns/key")
}
