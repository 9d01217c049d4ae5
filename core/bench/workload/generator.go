// Package workload makes the load of a demo: conversations that share system prompts and
// grow turn by turn. A load is a function of its configuration alone, so that several
// processes can make the same one and each replay its share.
package workload

import (
	"container/heap"
	"io"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/trace"
)

// Generator yields the requests of a load, in the order in which they arrive. It keeps
// the prompts of the open sessions, nothing that grows with the number of requests. It is
// for one goroutine.
type Generator struct {
	cfg     Config
	rng     *rand.Rand
	prompts []float64 // cumulative popularity of the system prompts
	queue   sessions
	seq     int
	opened  int
	next    uint64 // next unused block id
}

var _ trace.Source = (*Generator)(nil)

// New makes a Generator.
func New(cfg Config) (*Generator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Generator{
		cfg:  cfg,
		rng:  rand.New(rand.NewPCG(cfg.Seed, 0x6d6f6f6e63616b65)),
		next: cfg.FirstBlock + uint64(cfg.SystemPrompts*cfg.SystemBlocks),
	}
	sum := 0.0
	for i := range cfg.SystemPrompts {
		sum += math.Pow(float64(i+1), -cfg.Skew)
		g.prompts = append(g.prompts, sum)
	}
	for rank := range cfg.Sessions {
		s := &session{rank: rank, due: g.pause(rank)}
		g.open(s)
		g.queue = append(g.queue, s)
	}
	heap.Init(&g.queue)
	return g, nil
}

// Next implements trace.Source.
func (g *Generator) Next() (trace.Request, error) {
	if g.seq == g.cfg.Requests {
		return trace.Request{}, io.EOF
	}
	s := g.queue[0]
	question := 1 + g.rng.IntN(g.cfg.PromptBlocks)
	if len(s.context)+question > g.cfg.MaxBlocks {
		g.open(s)
	}
	s.context = g.grow(s.context, question)
	answer := 1 + g.rng.IntN(g.cfg.OutputBlocks)
	req := trace.Request{
		Seq: g.seq, Timestamp: s.due, Session: s.id,
		InputTokens: len(s.context) * TokensPerBlock, OutputTokens: answer * TokensPerBlock,
		Blocks: append([]uint64(nil), s.context...),
	}
	g.seq++
	s.context = g.grow(s.context, answer)
	s.due += g.pause(s.rank)
	heap.Fix(&g.queue, 0)
	return req, nil
}

// open starts a new conversation in the place of s.
func (g *Generator) open(s *session) {
	s.id = g.opened
	g.opened++
	prompt := sort.SearchFloat64s(g.prompts, g.rng.Float64()*g.prompts[len(g.prompts)-1])
	first := g.cfg.FirstBlock + uint64(prompt*g.cfg.SystemBlocks)
	s.context = s.context[:0]
	for i := range g.cfg.SystemBlocks {
		s.context = append(s.context, first+uint64(i))
	}
}

func (g *Generator) grow(context []uint64, n int) []uint64 {
	for range n {
		context = append(context, g.next)
		g.next++
	}
	return context
}

// pause draws the time to a session's next turn. The mean grows with the rank, so that
// the share of turns falls with rank as the popularity of system prompts does.
func (g *Generator) pause(rank int) time.Duration {
	mean := float64(g.cfg.ThinkTime) * math.Pow(float64(rank+1), g.cfg.Skew)
	return time.Duration(min(mean*g.rng.ExpFloat64(), float64(trace.MaxTimestamp)))
}

type session struct {
	id, rank int
	due      time.Duration
	context  []uint64
}

// sessions is a heap by due time.
type sessions []*session

func (q sessions) Len() int      { return len(q) }
func (q sessions) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Less breaks ties by rank, so that equal times have one order.
func (q sessions) Less(i, j int) bool {
	if q[i].due != q[j].due {
		return q[i].due < q[j].due
	}
	return q[i].rank < q[j].rank
}

// Push and Pop complete heap.Interface; the number of sessions never changes.
func (q *sessions) Push(x any) { *q = append(*q, x.(*session)) }
func (q *sessions) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	*q = (*q)[:last]
	return s
}
