package netem

import (
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// wireLimit is how many bytes may cross the link for each byte of payload, in the payload's
// direction.
const wireLimit = 1.1

// result is what one operation of a cell came to.
type result struct {
	cell cell
	of   string // whose engine: go, python, upstream
	op   operation
	answer
	// Wire and Back are bytes that crossed the link in the payload's direction and against it.
	Wire, Back int64
}

func (o *result) failed() int { return failures(o.Failed) }

func failures(byCode map[string]int) int {
	n := 0
	for _, k := range byCode {
		n += k
	}
	return n
}

// wire is the bytes on the link for each byte of payload.
func (o *result) wire() float64 { return float64(o.Wire) / float64(o.cell.payload()) }

// players are the processes of one cell.
type players struct {
	link    *link
	beside  *worker   // at end 0: has the memory, or fills and checks the store
	clients []*worker // at end 1, or with shm at end 0
}

// gatherEngine starts a target and its clients.
func gatherEngine(t *testing.T, c cell, interpreter string) *players {
	l := newLink(t, c.shape(), "cubic")
	p := &players{link: l}
	m := member{Role: "target", Transport: c.Transport, Clients: c.Clients, Size: c.size()}
	p.beside = l.member(t, 0, m, interpreter)
	m.Role, m.Peer = "client", p.beside.answer(t).Peer
	p.addClients(t, c, m, interpreter)
	return p
}

func (p *players) addClients(t *testing.T, c cell, m member, interpreter string) {
	end := 1
	if c.Transport == "shm" { // It reaches no further than its own namespace.
		end = 0
	}
	for i := range c.Clients {
		m.Number = i
		p.clients = append(p.clients, p.link.member(t, end, m, interpreter))
	}
	gather(t, p.clients)
}

// masterPort is where the master of a cell listens, in a namespace of its own.
const masterPort = "50051"

// gatherStore starts a master, a store and clients.
func gatherStore(t *testing.T, c cell) *players {
	l := newLink(t, c.shape(), "cubic")
	p := &players{link: l}
	master := address[0] + ":" + masterPort
	program := func(name string, args ...string) {
		m := member{Role: "program", Args: args}
		spec, err := m.spec("")
		if err != nil {
			t.Fatal(err)
		}
		spec.Name = name
		proc := l.nsenter(t, 0, spec)
		t.Cleanup(func() {
			if t.Failed() && os.Getenv("NETEM_LOG") != "" {
				t.Logf("last lines of the %s:\n%s", name, proc.Tail())
			}
		})
	}
	program("master", "master", "--rpc_address", address[0], "--rpc_port", masterPort, "--metrics_host", "127.0.0.1", "--admin_socket", "off")
	segment := 3*c.payload() + 64<<20 // For the gets, the puts, and what a retried put quarantines.
	program("store", append([]string{
		"store", "--master_server_address", master, "--global_segment_size", strconv.Itoa(segment),
	}, programArgs(c.Transport, address[0])...)...)
	m := member{Role: "store", Transport: c.Transport, Master: master, Clients: c.Clients, Size: c.size(), Number: -1}
	p.beside = l.member(t, 0, m, "")
	p.beside.answer(t)
	if a := all(t, []*worker{p.beside}, "fill"); len(a.Failed) > 0 {
		t.Fatalf("put what is to be got, beside the store: %v: %s", a.Failed, a.Notes)
	}
	p.addClients(t, c, m, "")
	return p
}

// settleLimit bounds the wait for what an operation left behind.
const settleLimit = 30 * time.Second

// play runs the operations of a cell.
func (p *players) play(t *testing.T, c cell, of string) []result {
	var out []result
	for _, op := range c.operations() {
		if op.kind == transport.Write {
			all(t, p.clients, "prepare")
		}
		before, err := p.link.settle(settleLimit)
		if err != nil {
			t.Fatal(err)
		}
		o := result{cell: c, of: of, op: op, answer: all(t, p.clients, op.name)}
		after, err := p.link.settle(settleLimit)
		if err != nil {
			t.Fatal(err)
		}
		to, from := 1, 0
		if op.kind == transport.Write {
			to, from = 0, 1
			check := all(t, []*worker{p.beside}, "check")
			if c.Level == "engine" {
				check.Wrong = max(check.Wrong-o.failed(), 0) // What failed may have any bytes.
			}
			o.Wrong += check.Wrong
			if lost := failures(check.Failed) - o.failed(); lost > 0 {
				o.Failed["lost"] = lost
				maps.Copy(o.Notes, check.Notes)
			}
		}
		o.Wire, o.Back = after[to]-before[to], after[from]-before[from]
		if text := p.link.figures(); text != "" {
			t.Logf("%s: the emulator, since its start: %s", op.name, text)
		}
		out = append(out, o)
	}
	return out
}

// TestSlowAndShared: transfers over slow and shared links end, and move each byte about once.
// NETEM_CELLS chooses the cells: one (the default), short, rates (without delay or loss) or all.
//
// It asserts nothing about time: the table says how long each operation took.
func TestSlowAndShared(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	which := os.Getenv("NETEM_CELLS")
	if which == "" {
		which = "one"
	}
	cells, ok := plans[which]
	if !ok {
		t.Fatalf("NETEM_CELLS is %q, must be one, short, rates or all", which)
	}
	tab := &table{path: os.Getenv("NETEM_OUT")}
	for _, c := range cells {
		t.Run(c.name(), func(t *testing.T) {
			tab.run(t, c)
		})
	}
	t.Log("\n" + tab.String())
}

// run runs one cell with our engine and, at the level of the engine, with the interpreters of
// NETEM_PYTHON (a Python that has this project's package) and NETEM_UPSTREAM (one that has the
// reference implementation).
func (tab *table) run(t *testing.T, c cell) {
	t.Run("go", func(t *testing.T) {
		var p *players
		if c.Level == "store" {
			p = gatherStore(t, c)
		} else {
			p = gatherEngine(t, c, "")
		}
		for _, o := range p.play(t, c, "go") {
			tab.add(t, o)
			o.gate(t)
		}
	})
	for of, variable := range map[string]string{"python": "NETEM_PYTHON", "upstream": "NETEM_UPSTREAM"} {
		interpreter := os.Getenv(variable)
		if interpreter == "" || c.Level != "engine" || of == "upstream" && c.Transport != "tcp" {
			continue
		}
		t.Run(of, func(t *testing.T) {
			for _, o := range gatherEngine(t, c, interpreter).play(t, c, of) {
				tab.add(t, o)
				if of != "upstream" {
					o.gate(t)
				}
			}
		})
	}
}

// gate is what every operation is held to.
func (o *result) gate(t *testing.T) {
	if n := o.failed(); n > 0 {
		t.Errorf("%s: %d of %d requests failed, by code %s; the first of each code: %v", o.op.name, n, o.Requests, codes(o.Failed), o.Notes)
	}
	if o.Wrong > 0 {
		t.Errorf("%s: %d of %d requests gave wrong bytes", o.op.name, o.Wrong, o.Requests)
	}
	if o.wire() > wireLimit {
		t.Errorf("%s: %.2f bytes crossed the link for each byte of payload, want at most %.1f", o.op.name, o.wire(), wireLimit)
	}
}

func codes(failed map[string]int) string {
	var parts []string
	for code, n := range failed {
		parts = append(parts, code+" x "+strconv.Itoa(n))
	}
	return strings.Join(parts, ", ")
}
