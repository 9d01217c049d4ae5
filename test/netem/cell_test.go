package netem

import (
	"fmt"
	"math"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// cell is one entry of the table of slow and shared links: a link, a number of clients that share
// it, and a kind of transfer.
type cell struct {
	Transport string  // tcp, quic, or shm, which ignores the link
	Level     string  // engine or store
	Rate      float64 // bits per second, in each direction
	Clients   int
	RoundTrip time.Duration
	Loss      float64 // the share of packets that are dropped, in each direction
	// Busy is how long the payload keeps the link busy where maxPayload allows: more than the default
	// of store.slice_timeout, 5 s, so that a bound that includes the time in the queue is exceeded.
	Busy time.Duration
}

const (
	tableBusy = 10 * time.Second
	shortBusy = 7 * time.Second
	// requests is how many requests, or objects, a client has in flight.
	requests = 8
	// maxPayload bounds the bytes of one client.
	maxPayload = requests * 16 << 20
	// streams is how many congestion windows a client is expected to have at the least. It decides
	// the payload of a link with loss, not the outcome.
	streams = 4
	// segmentBytes is the payload of a full TCP segment.
	segmentBytes = 1448
)

// name is the cell's subtest.
func (c cell) name() string {
	return fmt.Sprintf("%s-%s-%s-%dx-%dms-%g%%", c.Transport, c.Level, rateName(c.Rate), c.Clients, c.RoundTrip.Milliseconds(), c.Loss*100)
}

func rateName(bps float64) string {
	if bps >= 1e9 {
		return fmt.Sprintf("%gGbit", bps/1e9)
	}
	return fmt.Sprintf("%gMbit", bps/1e6)
}

// size is the bytes of one request.
func (c cell) size() int {
	// What the clients together can have: the rate, or what loss leaves of it by the formula of
	// Mathis et al. for the speed of a TCP stream.
	speed := c.Rate / 8
	if c.Loss > 0 {
		trip := max(c.RoundTrip, 10*time.Millisecond).Seconds()
		speed = min(speed, float64(c.Clients*streams)*segmentBytes*1.22/(trip*math.Sqrt(c.Loss)))
	}
	payload := min(maxPayload, int(speed*c.Busy.Seconds())/c.Clients)
	return max(payload/requests&^4095, 4096)
}

// payload is the bytes of all clients together.
func (c cell) payload() int { return c.Clients * requests * c.size() }

// ideal is how long the payload alone keeps the link busy.
func (c cell) ideal() time.Duration {
	return time.Duration(float64(c.payload()) * 8 / c.Rate * 1e9)
}

// shape is the link of the cell. Its queue holds what the link carries in a round trip, and in 50
// ms at the least.
func (c cell) shape() Shape {
	return Shape{Delay: c.RoundTrip / 2, Loss: c.Loss, Rate: c.Rate, MaxQueue: max(c.RoundTrip, 50*time.Millisecond)}
}

// operation is one direction of a cell, in the words of its level.
type operation struct {
	name string
	kind transport.OpKind
}

// operations of the cell in the order in which they run: the target's first bytes are read before
// they are overwritten.
func (c cell) operations() []operation {
	if c.Level == "store" {
		return []operation{{"get", transport.Read}, {"put", transport.Write}}
	}
	return []operation{{"read", transport.Read}, {"write", transport.Write}}
}

// plan is the cross product of its lists.
type plan struct {
	transports, levels []string
	rates              []float64
	clients            []int
	trips              []time.Duration
	losses             []float64
}

func (p plan) cells() []cell {
	var out []cell
	for _, rate := range p.rates {
		for _, clients := range p.clients {
			for _, trip := range p.trips {
				for _, loss := range p.losses {
					for _, tr := range p.transports {
						for _, level := range p.levels {
							out = append(out, cell{tr, level, rate, clients, trip, loss, tableBusy})
						}
					}
				}
			}
		}
	}
	return out
}

// plans are the values of NETEM_CELLS.
var plans = map[string][]cell{
	"one":   shortCells[:1],
	"short": shortCells,
	"rates": plan{
		[]string{"tcp", "quic"}, []string{"engine", "store"}, []float64{10e6, 100e6, 1e9},
		[]int{1, 4, 16}, []time.Duration{0}, []float64{0},
	}.cells(),
	"all": plan{
		[]string{"tcp", "quic"}, []string{"engine", "store"}, []float64{10e6, 100e6, 1e9},
		[]int{1, 4, 16}, []time.Duration{0, 50 * time.Millisecond, 200 * time.Millisecond}, []float64{0, 0.01},
	}.cells(),
}

// shortCells are few cells that a bound on queueing time, or a timeout shorter than a round trip
// with a loss, fails in.
var shortCells = []cell{
	{"tcp", "engine", 10e6, 1, 0, 0, shortBusy},
	{"shm", "engine", 10e6, 4, 0, 0, shortBusy},
	{"tcp", "engine", 100e6, 16, 0, 0, shortBusy},
	{"tcp", "store", 10e6, 4, 0, 0, shortBusy},
	{"tcp", "engine", 10e6, 4, 200 * time.Millisecond, 0.01, shortBusy},
	{"quic", "engine", 10e6, 1, 0, 0, shortBusy},
	{"quic", "store", 10e6, 4, 200 * time.Millisecond, 0.01, shortBusy},
}
