package chaos

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/bench/content"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// damaging is a pool that has all objects of a load and damages one byte of what it reads.
type damaging struct {
	store.Pool
	l *load
	// damage is the offset of the byte, -1 for none.
	damage int
	miss   bool
}

func (p *damaging) read(key model.Key, f store.Fragment) model.Result[int] {
	if p.miss {
		return model.Result[int]{Err: errs.New(errs.ObjectNotFound, "read", "it is gone")}
	}
	for i, k := range p.l.keys {
		if k == key {
			page := make([]byte, p.l.opts.PageSize)
			content.Fill(page, uint64(i), p.l.seed)
			if p.damage >= 0 {
				page[p.damage] ^= 1
			}
			copy(f.Mem, page[f.Offset:])
		}
	}
	return model.Result[int]{Value: len(f.Mem)}
}

func (p *damaging) BatchGetInto(_ context.Context, keys []model.Key, dst [][]byte) (out []model.Result[int]) {
	for i, k := range keys {
		out = append(out, p.read(k, store.Fragment{Mem: dst[i]}))
	}
	return out
}

func (p *damaging) GetIntoRanges(_ context.Context, reads []store.Ranges) [][]model.Result[int] {
	out := make([][]model.Result[int], len(reads))
	for i, r := range reads {
		for _, f := range r.Fragments {
			out[i] = append(out[i], p.read(r.Key, f))
		}
	}
	return out
}

// layers is the layer-wise side of it.
type layers struct {
	store.Layers
	*damaging
}

func (p layers) GetRanges(ctx context.Context, reads []store.Ranges) (out []model.Result[int]) {
	for _, r := range p.GetIntoRanges(ctx, reads) {
		out = append(out, r[0])
	}
	return out
}

func (p *damaging) Layers() store.Layers { return layers{damaging: p} }

func (layers) StartGets(context.Context, []model.Key) []error { return nil }

func (layers) EndGets(context.Context, []model.Key) error { return nil }

func (p *damaging) turns(kind int) (good bool) {
	for range 200 {
		good = p.l.turn(kind)
	}
	return good
}

// Each way of reading finds a byte that is wrong, and takes a miss for no success.
func TestLoadFindsWrongBytes(t *testing.T) {
	for kind, name := range []string{"whole", "ranges", "layers"} {
		t.Run(name, func(t *testing.T) {
			l := newLoad(nil, Options{Keys: 40, PageSize: 1 << 10}.withDefaults(), 7)
			p := &damaging{l: l, damage: -1}
			l.pool = p
			require.True(t, p.turns(kind))
			require.Zero(t, l.wrong)
			p.damage = 500
			require.True(t, p.turns(kind))
			require.NotZero(t, l.wrong)
			require.Equal(t, 40, l.readable(t.Context(), 0))
			p.miss = true
			require.False(t, p.turns(kind))
			require.Zero(t, l.readable(t.Context(), 0))
		})
	}
}

func TestSelect(t *testing.T) {
	all, err := Select(nil)
	require.NoError(t, err)
	require.Equal(t, Faults(), all)
	one, err := Select([]string{"store SIGSTOP"})
	require.NoError(t, err)
	require.Equal(t, "store SIGSTOP", one[0].Name)
	_, err = Select([]string{"master SIGSTP"})
	require.ErrorContains(t, err, `"master SIGSTOP"`, "the error lists what there is")
}
