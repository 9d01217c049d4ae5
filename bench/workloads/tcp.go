package workloads

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
	"github.com/mooncake-go/mooncake/core/bench/iperf3"
)

// tcp measures puts and gets between processes over TCP.
func tcp(ctx context.Context, b *bench) error {
	b.Step("starting pools, stores and servers")
	inGo, inPython, err := b.oursOverTCP(ctx)
	if err != nil {
		return err
	}
	f := tcpField{
		inGo: inGo, inPython: inPython,
		upstream: b.upstreamOverTCP(ctx).prepare(ctx, preparation()),
	}
	redis, err := b.Redis(ctx)
	f.redis = joining(competitors.RedisName, "", redis, err).prepare(ctx, drivers.Job{Sets: keyValueSets()})
	memcached, err := b.Memcached(ctx)
	f.memcached = joining(competitors.MemcachedName, "", memcached, err).prepare(ctx, drivers.Job{Sets: keyValueSets()})
	wire, err := b.Wire(ctx)
	f.wire = joining(competitors.WireName, competitors.TCP, wire, err)
	if f.iperf, err = b.Iperf(); err != nil {
		f.noIperf = err.Error()
	}
	for _, s := range shapes() {
		for _, threads := range []int{1, 4} {
			for _, do := range []string{drivers.Put, drivers.Get} {
				if err := b.compareTCP(ctx, f, b.job(do, s, threads), s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tcpField is who takes part.
type tcpField struct {
	inGo, inPython, upstream, redis, memcached, wire member
	iperf                                            *iperf3.Server
	noIperf                                          string
}

// oursOverTCP starts a pool of ours and two clients of it, with shared memory switched off.
func (b *bench) oursOverTCP(ctx context.Context) (inGo, inPython member, err error) {
	m, err := b.OursMaster(ctx, -1)
	if err != nil {
		return inGo, inPython, err
	}
	if err := b.OursStore(ctx, m, competitors.TCP, poolBytes); err != nil {
		return inGo, inPython, err
	}
	g, err := b.OursGo(ctx, m, competitors.TCP, 0)
	if err != nil {
		return inGo, inPython, err
	}
	inGo = joining(competitors.OursName, competitors.TCP, g, nil).prepare(ctx, preparation())
	p, err := b.OursPython(ctx, m, competitors.TCP, -1, 0)
	return inGo, joining(competitors.OursPython, competitors.TCP, p, err), nil
}

// upstreamOverTCP starts a pool of upstream's and a client in another process.
func (b *bench) upstreamOverTCP(ctx context.Context) member {
	m, err := b.UpstreamMaster(ctx, -1)
	if err == nil {
		_, err = b.UpstreamPython(ctx, m, -1, poolBytes)
	}
	var d *competitors.Driver
	if err == nil {
		d, err = b.UpstreamPython(ctx, m, -1, 0)
	}
	return joining(competitors.UpstreamName, competitors.TCP, d, err)
}

// keyValueSizes are the objects that servers of keys and values are compared with.
var keyValueSizes = map[int]bool{4 << 10: true, 64 << 10: true, 1 << 20: true}

func keyValueSets() []drivers.Set { return drivers.Sets(4<<10, 64<<10, 1<<20) }

func (b *bench) compareTCP(ctx context.Context, f tcpField, j drivers.Job, s shape) error {
	what := tcpWork(j.Do, s, j.Threads)
	contenders := []compare.Contender{f.inGo.moves(j), f.upstream.moves(j), f.inPython.moves(j)}
	pairs := []pair{
		{work: what + ", Python", ours: competitors.OursPython, peer: competitors.UpstreamName, goal: upstreamGoal(s)},
		{work: what + ", Go", ours: competitors.OursName, peer: competitors.UpstreamName, goal: upstreamGoal(s)},
	}
	if j.Threads > 1 {
		pairs = append(pairs, b.besideOneThread(j, s, what))
	}
	if s.size >= 64<<10 {
		contenders = append(contenders, f.limit(j))
		goal := 0.0
		if s.size >= 1<<20 {
			goal = 0.95
		}
		pairs = append(pairs, pair{work: what + ", Go", ours: competitors.OursName, peer: competitors.IperfName, goal: goal})
	}
	if s.count == 1 && s.size <= drivers.WireBytes {
		contenders = append(contenders, f.wire.moves(j))
		pairs = append(pairs, pair{work: what + ", Go", ours: competitors.OursName, peer: competitors.WireName, goal: wireGoal(s)})
	}
	if s.count == 1 && keyValueSizes[s.size] {
		contenders = append(contenders, f.redis.moves(j), f.memcached.moves(j))
		for _, peer := range []string{competitors.RedisName, competitors.MemcachedName} {
			pairs = append(pairs, pair{work: what + ", Go", ours: competitors.OursName, peer: peer})
		}
	}
	for i := range pairs {
		pairs[i].unit, pairs[i].measure = compare.GBps, rate
	}
	return b.compare(ctx, what, contenders, pairs...)
}

// upstreamGoal is how far ahead of upstream puts and gets over TCP should be, 0 for no goal. From 64 KiB on the limit is the
// loopback interface, so that the further goals there are bare TCP, iperf3 and the processor time.
func upstreamGoal(s shape) float64 {
	switch {
	case s.size >= 64<<10:
		return 1
	case s.count > 1:
		return 1.5
	}
	return 0
}

// besideOneThread holds several threads against one thread of the same run, which they should not fall below.
func (b *bench) besideOneThread(j drivers.Job, s shape, what string) pair {
	p := pair{work: what + ", Go", ours: competitors.OursName, goal: 1}
	name := competitors.OursName + ", " + threadsName(1)
	if one, ok := b.measured(tcpWork(j.Do, s, 1) + ", Go"); ok {
		p.fixed = compare.Fixed(name, one)
	} else {
		p.fixed = compare.Absent(name, "it was not measured")
	}
	return p
}

// tcpWork names a row.
func tcpWork(do string, s shape, threads int) string {
	return fmt.Sprintf("tcp %s %s, %s", do, s, threadsName(threads))
}

// wireGoal is 1 / 1.5: how much of what the bare round trips move an object of 64 KiB should. Above, iperf3 is the limit.
func wireGoal(s shape) float64 {
	if s.size == 64<<10 {
		return 1 / 1.5
	}
	return 0
}

const (
	iperfBytes    = 1 << 30 // what iperf3 moves in a round
	maxIperfBlock = 1 << 20 // the largest block that it takes
)

// limit is iperf3 with a stream for each thread.
func (f tcpField) limit(j drivers.Job) compare.Contender {
	if f.noIperf != "" {
		return compare.Unavailable(competitors.IperfName, f.noIperf)
	}
	return compare.Contender{Name: competitors.IperfName, Measure: func(ctx context.Context) (compare.Values, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		r, err := f.iperf.Measure(ctx, j.Threads, j.Do == drivers.Get,
			"-l", strconv.Itoa(min(j.Size, maxIperfBlock)), "-n", strconv.Itoa(iperfBytes/j.Threads))
		return compare.Values{rate: r.GBps, cpuMeasure(rate): r.CPU}, err
	}}
}
