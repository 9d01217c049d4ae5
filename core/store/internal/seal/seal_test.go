package seal

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/sealkeys"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ring has keys by their IDs.
type ring map[string]byte

func (r ring) key(id string) (k sealkeys.Key, err error) {
	b, ok := r[id]
	if !ok {
		return k, sealkeys.ErrUnknown
	}
	k.ID = id
	copy(k.Secret[:], bytes.Repeat([]byte{b}, len(k.Secret)))
	return k, nil
}

func (r ring) Current(context.Context, string) (sealkeys.Key, error)      { return r.key("now") }
func (r ring) Find(_ context.Context, _, id string) (sealkeys.Key, error) { return r.key(id) }
func (r ring) Close()                                                     {}

var keys = ring{"now": 1, "old": 2}

// bytesOf returns n bytes, the same for a seed.
func bytesOf(seed uint64, n int) []byte {
	b := make([]byte, n)
	src := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(src.Uint32())
	}
	return b
}

// cut divides memory into adjacent fragments at borders, which are offsets in the object.
func cut(mem []byte, off int, borders ...int) (fs []store.Fragment) {
	at := 0
	for _, b := range append(borders, off+len(mem)) {
		if b -= off; b > at && b <= len(mem) {
			fs = append(fs, store.Fragment{Offset: uint64(off + at), Mem: mem[at:b:b]})
			at = b
		}
	}
	return fs
}

// sealed returns the body and the trailer of a value.
func sealed(t require.TestingT, s *Sealer, object string, value []store.Fragment) (body, trailer []byte) {
	k, err := s.Current(context.Background())
	require.NoError(t, err)
	for _, f := range value {
		body = append(body, f.Mem...)
	}
	trailer = make([]byte, TrailerSize(uint64(len(body))))
	out := body
	if s.Encrypts() {
		out = make([]byte, len(body))
	}
	var w Work
	require.NoError(t, s.Seal(&w, &k, object, value, out, trailer))
	w.Do()
	return out, trailer
}

// open opens fragments of an object.
func open(s *Sealer, object string, size int, fs []store.Fragment, trailer []byte) error {
	var w Work
	o, err := s.Open(context.Background(), &w, object, uint64(size), fs, trailer)
	if w.Do(); err != nil {
		return err
	}
	return o.Err()
}

func TestSizesAreOneToOne(t *testing.T) {
	for _, around := range []uint64{1, 200, minChunk, 2 * minChunk, minChunk * maxChunks, 2 * minChunk * maxChunks, 1 << 40, MaxSize - 40} {
		for size := max(around, 40) - 39; size <= around+40 && size <= MaxSize; size++ {
			s := SealedSize(size)
			back, ok := PlainSize(s)
			require.True(t, ok, "%d", size)
			require.Equal(t, size, back)
			require.Less(t, s, SealedSize(size+1))
			require.LessOrEqual(t, chunks(size), slots(size))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.Uint64Range(0, 100_000), rapid.Uint64()).Draw(t, "sealed")
		if size, ok := PlainSize(s); ok {
			require.Equal(t, s, SealedSize(size))
		} else if s > headerSize+tagSize && s < MaxSize { // between two sizes
			n := s - headerSize - tagSize*min((s-headerSize+minChunk+tagSize-1)/(minChunk+tagSize), maxChunks)
			require.Greater(t, SealedSize(n+1), s)
		}
	})
}

// TestRangesOfSealedValues: values of any size, in any fragments, are opened as a whole and in any run of chunks.
func TestRangesOfSealedValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(rapid.SampledFrom([]Algorithm{MAC, AEAD}).Draw(t, "algorithm"), keys, "default")
		size := rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(minChunk-20, minChunk+20), rapid.IntRange(1, 200_000), rapid.IntRange(1<<20, 3<<20)).Draw(t, "size")
		want := bytesOf(uint64(size), size)
		borders := rapid.SliceOfN(rapid.IntRange(1, size), 0, 5).Draw(t, "borders")
		slices.Sort(borders)
		value := slices.Clone(want)
		body, trailer := sealed(t, s, "k", cut(value, 0, borders...))
		require.Equal(t, want, value, "the memory of the caller")
		require.Equal(t, !s.Encrypts(), bytes.Equal(want, body))

		chunk, n := int(ChunkSize(uint64(size))), int(chunks(uint64(size)))
		first := rapid.IntRange(0, n-1).Draw(t, "first chunk")
		last := rapid.IntRange(first, n-1).Draw(t, "last chunk")
		lo, hi := first*chunk, min((last+1)*chunk, size)
		around := slices.Concat([]byte("before"), body[lo:hi], []byte("behind what is read"))
		mem := around[len("before") : len("before")+hi-lo]
		require.NoError(t, open(s, "k", size, cut(mem, lo, borders...), trailer))
		require.Equal(t, want[lo:hi], mem)
		require.Equal(t, "before", string(around[:6]))
		require.Equal(t, "behind what is read", string(around[6+hi-lo:]))

		bad := rapid.IntRange(lo, hi-1).Draw(t, "flipped byte")
		mem = slices.Clone(body[lo:hi])
		mem[bad-lo] ^= byte(1) << rapid.IntRange(0, 7).Draw(t, "bit")
		err := open(s, "k", size, cut(mem, lo, borders...), trailer)
		require.ErrorIs(t, err, errs.ChecksumMismatch.Err())
		require.ErrorContains(t, err, fmt.Sprintf("from %d on", bad/chunk*chunk))
	})
}

// TestForgeries: whatever is exchanged, cut, grown or changed is refused.
func TestForgeries(t *testing.T) {
	for _, a := range []Algorithm{MAC, AEAD} {
		s := New(a, keys, "default")
		const size = 5 * minChunk
		body, trailer := sealed(t, s, "k", cut(bytesOf(1, size), 0))
		other, otherTrailer := sealed(t, s, "k", cut(bytesOf(2, size), 0))
		with := func(b []byte, at int, put ...byte) []byte {
			b = slices.Clone(b)
			copy(b[at:], put)
			return b
		}
		reordered := slices.Concat(body[minChunk:2*minChunk], body[:minChunk], body[2*minChunk:])
		tags := trailer[headerSize:]
		reorderedTags := slices.Concat(trailer[:headerSize], tags[tagSize:2*tagSize], tags[:tagSize], tags[2*tagSize:])
		short := 4 * minChunk
		cases := []struct {
			name          string
			s             *Sealer
			object        string
			body, trailer []byte
		}{
			{"another object", s, "l", body, trailer},
			{"another tenant", New(a, keys, "defaulT"), "k", body, trailer},
			{"names that end elsewhere", New(a, keys, "defaul"), "tk", body, trailer},
			{"another key", New(a, ring{"now": 9}, "default"), "k", body, trailer},
			{"a key that is not there", New(a, ring{"old": 1}, "default"), "k", body, trailer},
			{"the body of another put", s, "k", other, trailer},
			{"the trailer of another put", s, "k", body, otherTrailer},
			{"the tags of another put", s, "k", body, slices.Concat(trailer[:headerSize], otherTrailer[headerSize:])},
			{"chunks in another order", s, "k", reordered, trailer},
			{"chunks and tags in another order", s, "k", reordered, reorderedTags},
			{"cut", s, "k", body[:short], trailer[:TrailerSize(uint64(short))]},
			{"cut, with the size", s, "k", body[:short], with(trailer[:TrailerSize(uint64(short))], sizeAt, 0, 0, 1)},
			{"grown", s, "k", append(slices.Clone(body), 0), with(append(slices.Clone(trailer), make([]byte, tagSize)...), sizeAt, 1, 0x40, 1)},
			{"the other algorithm", s, "k", body, with(trailer, algorithmAt, byte(3-a))},
			{"an unknown algorithm", s, "k", body, with(trailer, algorithmAt, 3)},
			{"another version", s, "k", body, with(trailer, versionAt, 2)},
			{"no seal", s, "k", body, make([]byte, len(trailer))},
			{"another salt", s, "k", body, with(trailer, saltAt+5, trailer[saltAt+5]+1)},
			{"another ID", s, "k", body, with(trailer, idAt, []byte("old")...)},
			{"no ID", s, "k", body, with(trailer, idSizeAt, 0)},
			{"something in the space", s, "k", body, with(trailer, idSizeAt+1, 1)},
			{"something behind the ID", s, "k", body, with(trailer, headerSize-1, 1)},
			{"a tag of zeros", s, "k", body, with(trailer, headerSize, make([]byte, tagSize)...)},
		}
		for _, c := range cases {
			err := open(c.s, c.object, len(c.body), cut(slices.Clone(c.body), 0), c.trailer)
			require.ErrorIs(t, err, errs.ChecksumMismatch.Err(), "%d %s", a, c.name)
		}
		require.NoError(t, open(s, "k", size, cut(slices.Clone(body), 0), trailer))
		require.NoError(t, open(New(3-a, keys, "default"), "k", size, cut(slices.Clone(body), 0), trailer), "the algorithm of the object counts")
	}
}

// TestEachPutHasItsOwnKey: the same value has another ciphertext and other tags each time.
func TestEachPutHasItsOwnKey(t *testing.T) {
	s := New(AEAD, keys, "default")
	a, x := sealed(t, s, "k", cut(make([]byte, 100), 0))
	b, y := sealed(t, s, "k", cut(make([]byte, 100), 0))
	require.NotEqual(t, a, b)
	require.NotEqual(t, x, y)
}

func TestFragmentsThatAreNoChunks(t *testing.T) {
	s := New(MAC, keys, "default")
	body, trailer := sealed(t, s, "k", cut(bytesOf(1, 100), 0))
	require.Error(t, open(s, "k", 100, cut(body[1:], 1), trailer))
	require.Error(t, open(s, "k", 100, cut(body[:99], 0), trailer))
}

// FuzzTrailer: no trailer but one that was sealed is accepted, whatever its bytes.
func FuzzTrailer(f *testing.F) {
	s := New(AEAD, keys, "default")
	body, trailer := sealed(f, s, "k", cut(bytesOf(1, 1000), 0))
	f.Add(trailer, uint64(1000))
	f.Add(trailer[:headerSize], uint64(1))
	f.Add(make([]byte, headerSize+tagSize), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, size uint64) {
		h, err := parse(b, max(size, 1))
		if err == nil {
			again := slices.Clone(b)
			h.put(again)
			require.Equal(t, b, again)
		}
		if size == 1000 && !bytes.Equal(b, trailer) {
			require.Error(t, open(s, "k", 1000, cut(slices.Clone(body), 0), b))
		}
	})
}

// BenchmarkSeal is what a core does to seal and to open values.
func BenchmarkSeal(b *testing.B) {
	for _, a := range []Algorithm{MAC, AEAD} {
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
			s, name := New(a, keys, "default"), map[Algorithm]string{MAC: "mac", AEAD: "aead"}[a]
			value, body := bytesOf(1, size), make([]byte, size)
			trailer := make([]byte, TrailerSize(uint64(size)))
			k, err := s.Current(b.Context())
			require.NoError(b, err)
			var w Work
			b.Run(fmt.Sprintf("%s/seal/%dK", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					require.NoError(b, s.Seal(&w, &k, "k", cut(value, 0), body, trailer))
					w.Do()
				}
			})
			b.Run(fmt.Sprintf("%s/open/%dK", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				mem := make([]byte, size)
				for b.Loop() {
					b.StopTimer()
					copy(mem, body)
					if a == MAC {
						copy(mem, value)
					}
					b.StartTimer()
					require.NoError(b, open(s, "k", size, cut(mem, 0), trailer))
				}
			})
		}
	}
}
