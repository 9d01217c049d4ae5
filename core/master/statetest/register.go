// Package statetest checks that what concurrent clients saw of a master is linearizable:
// that there is one order of all calls, true to their times, which explains every answer.
package statetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Size is that of every object, in bytes.
const Size = 1 << 10

// Keys is how many keys the clients call about.
const Keys = 6

// Key is the name of one of the keys.
func Key(i int) string { return fmt.Sprintf("k%d", i) }

// Op is one call about one key.
type Op struct {
	Kind   string // begin, overwrite, end, revoke, read, exist, remove; see Pool for a client's
	Key    string
	Client int
	Sum    uint64 // of an end: what is written
	Weak   bool   // of a write of Pool: what it replaced may come back
}

// Result is what a call answered.
type Result struct {
	Code  errs.Code
	Sum   uint64
	There bool
}

// state is what a key is: absent, being written by a client, or readable with a value.
type state struct {
	at    int
	owner int
	sum   uint64
}

const (
	absent = iota
	writing
	readable
)

// register is what one key may do. Eviction may take a readable one away before any call,
// so each step is taken from the state as it is and, where it is readable, from absence.
func register() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: byKey,
		Init:      func() []any { return []any{state{}} },
		Step: func(at, input, output any) (next []any) {
			s, op, got := at.(state), input.(Op), output.(Result)
			if to, ok := s.step(op, got); ok {
				next = append(next, to)
			}
			if s.at == readable {
				if to, ok := (state{}).step(op, got); ok {
					next = append(next, to)
				}
			}
			return next
		},
	}
	return m.ToModel()
}

func (s state) step(op Op, got Result) (state, bool) {
	c := got.Code
	switch op.Kind {
	case "begin":
		if s.at == absent && c == errs.OK {
			return state{at: writing, owner: op.Client}, true
		}
		return s, s.at != absent && c == errs.ObjectAlreadyExists || c == errs.NoAvailableHandle
	case "overwrite":
		if c == errs.OK {
			return state{at: writing, owner: op.Client}, true
		}
		return s, c == errs.NoAvailableHandle
	case "end", "revoke":
		switch {
		case s.at == writing && s.owner == op.Client && c == errs.OK:
			if op.Kind == "end" {
				return state{at: readable, owner: op.Client, sum: op.Sum}, true
			}
			return state{}, true
		case s.at == absent:
			return s, c == errs.ObjectNotFound
		case s.owner != op.Client:
			return s, c == errs.IllegalClient
		}
		return s, s.at == readable && (c == errs.InvalidWrite || op.Kind == "end" && c == errs.OK)
	case "read":
		return s, s.at == readable && c == errs.OK && got.Sum == s.sum || s.at == writing && c == errs.ReplicaIsNotReady || s.at == absent && c == errs.ObjectNotFound
	case "exist":
		return s, got.There == (s.at == readable)
	case "remove":
		if s.at == readable && c == errs.OK {
			return state{}, true
		}
		return s, s.at == writing && c == errs.ReplicaIsNotReady || s.at == absent && c == errs.ObjectNotFound
	}
	return s, false
}

// Calls is what the Service and its client over the network have in common here.
type Calls interface {
	PutStart(context.Context, model.Caller, []model.PutItem, model.ReplicateConfig, *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error)
	PutEnd(context.Context, model.Caller, []model.EndItem, []error) ([]error, error)
	PutRevoke(context.Context, model.Caller, []model.RevokeItem) ([]error, error)
	GetReplicas(context.Context, model.Caller, []model.Key, *model.Answer[model.Object]) ([]model.Result[model.Object], error)
	Exist(context.Context, model.Caller, []model.Key) ([]model.Result[bool], error)
	Remove(context.Context, model.Caller, []model.Key, bool) ([]error, error)
}

func perform(ctx context.Context, m Calls, op Op) (Result, error) {
	caller := model.Caller{Client: model.UUID{Hi: 1, Lo: uint64(op.Client + 1)}}
	switch op.Kind {
	case "begin", "overwrite":
		got, err := m.PutStart(ctx, caller, []model.PutItem{{Key: op.Key, Size: Size}}, model.ReplicateConfig{ReplicaNum: 1, Upsert: op.Kind == "overwrite"}, nil)
		if err != nil {
			return Result{}, err
		}
		return Result{Code: errs.CodeOf(got[0].Err)}, nil
	case "end":
		got, err := m.PutEnd(ctx, caller, []model.EndItem{{Key: op.Key, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: op.Sum}}}, nil)
		return firstError(got, err)
	case "revoke":
		got, err := m.PutRevoke(ctx, caller, []model.RevokeItem{{Key: op.Key}})
		return firstError(got, err)
	case "read":
		got, err := m.GetReplicas(ctx, caller, []string{op.Key}, nil)
		if err != nil {
			return Result{}, err
		}
		return Result{Code: errs.CodeOf(got[0].Err), Sum: got[0].Value.Checksum.Value}, nil
	case "exist":
		got, err := m.Exist(ctx, caller, []string{op.Key})
		if err != nil {
			return Result{}, err
		}
		return Result{There: got[0].Value}, nil
	default:
		got, err := m.Remove(ctx, caller, []string{op.Key}, true)
		return firstError(got, err)
	}
}

func firstError(got []error, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	return Result{Code: errs.CodeOf(got[0])}, nil
}

// Contend has clients call about few keys at once and checks that there is an order of all
// calls that explains every answer.
func Contend(t testing.TB, seed uint64, clients, each int, to func(client int) Calls) {
	t.Helper()
	var (
		history History
		wg      sync.WaitGroup
	)
	kinds := []string{"begin", "begin", "overwrite", "end", "end", "end", "revoke", "read", "read", "exist", "remove"}
	for c := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(c)))
			m, last := to(c), "k0"
			for i := range each {
				op := Op{Kind: kinds[rng.IntN(len(kinds))], Client: c, Key: Key(rng.IntN(Keys)), Sum: uint64(c*each+i) + 1}
				if op.Kind == "end" || op.Kind == "revoke" {
					op.Key = last // what it may have begun
				}
				last = op.Key
				called := history.Tick()
				got, err := perform(context.Background(), m, op)
				if err != nil {
					t.Errorf("%+v: %v", op, err)
					return
				}
				history.Add(op, called, got, history.Tick())
			}
		})
	}
	wg.Wait()
	if err := history.Check(register(), 2*time.Minute); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}
