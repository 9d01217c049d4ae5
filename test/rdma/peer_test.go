package rdma

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/metadata"
	te "github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// peerJob is what a peer process is asked to be.
type peerJob struct {
	// Name is that of its segment, Metadata where it publishes it. Without a name it is a
	// bare transport, without an engine.
	Name, Metadata string
	Devices        []string
	// Size is the memory that it opens, filled from Seed.
	Size int
	Seed uint64
}

// peerReady is the first line that a peer writes.
type peerReady struct {
	// Addr is the memory's address, of a peer with an engine.
	Addr uint64
	// Endpoint and Key are those of a bare transport.
	Endpoint transport.Endpoint
	Key      transport.Key
}

// peerAsk is a question to a peer, one JSON object a line; peerTell is the answer.
type peerAsk struct {
	// Sum asks for the checksum of a range of the memory, else for the notifications.
	Sum            bool
	Offset, Length int
}

type peerTell struct {
	Sum           uint32
	Notifications []metadata.Notification
}

// servePeer is the main function of a peer process. It ends with its standard input.
func servePeer(job string, in io.Reader, out io.Writer) error {
	var j peerJob
	if err := json.Unmarshal([]byte(job), &j); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	mem, ready, engine, stop, err := j.open(ctx)
	if err != nil {
		return err
	}
	enc, lines := json.NewEncoder(out), bufio.NewScanner(in)
	if err := enc.Encode(ready); err != nil {
		return errors.Join(err, stop(ctx))
	}
	for lines.Scan() {
		var ask peerAsk
		if err := json.Unmarshal(lines.Bytes(), &ask); err != nil {
			return errors.Join(err, stop(ctx))
		}
		var tell peerTell
		if ask.Sum {
			tell.Sum = checksum(mem[ask.Offset:][:ask.Length])
		} else {
			tell.Notifications = engine.Notifications()
		}
		if err := enc.Encode(tell); err != nil {
			return errors.Join(err, stop(ctx))
		}
	}
	return errors.Join(lines.Err(), stop(ctx))
}

// open starts what the job says.
func (j peerJob) open(ctx context.Context) (mem []byte, ready peerReady, engine *te.Engine, stop func(context.Context) error, err error) {
	if j.Name == "" {
		return j.openBare(ctx)
	}
	n, err := openNode(ctx, j.Name, j.Metadata, j.Devices)
	if err != nil {
		return nil, ready, nil, nil, err
	}
	mem, addr, err := n.register(ctx, j.Size, transport.AccessRemote)
	if err != nil {
		return nil, ready, nil, nil, errors.Join(err, n.close(ctx))
	}
	fill(mem, j.Seed)
	if err := n.Transfer.Publish(ctx); err != nil {
		return nil, ready, nil, nil, errors.Join(err, n.close(ctx))
	}
	return mem, peerReady{Addr: addr}, n.Transfer, n.close, nil
}

func (j peerJob) openBare(ctx context.Context) (mem []byte, ready peerReady, engine *te.Engine, stop func(context.Context) error, err error) {
	tr, err := openTransport(ctx, j.Devices)
	if err != nil {
		return nil, ready, nil, nil, err
	}
	mem = make([]byte, j.Size)
	fill(mem, j.Seed)
	key, err := tr.Register(ctx, transport.Region{ID: 1, Mem: mem, FD: -1, Location: "*", Access: transport.AccessRemote})
	return mem, peerReady{Endpoint: tr.Endpoint(), Key: key}, nil, tr.Stop, err
}

// peer is a peer process, seen from the test.
type peer struct {
	peerReady
	job     peerJob
	proc    *cluster.Proc
	in      *os.File
	answers *json.Decoder
}

// startPeer starts a peer and waits until it is ready. It ends with the test.
func startPeer(ctx context.Context, t *testing.T, j peerJob) *peer {
	t.Helper()
	text, err := json.Marshal(j)
	require.NoError(t, err)
	stdin, in, err := os.Pipe()
	require.NoError(t, err)
	out, stdout, err := os.Pipe()
	require.NoError(t, err)
	proc, err := cluster.Start(cluster.Spec{
		Name: "peer " + j.Name, Program: os.Args[0], Env: append(os.Environ(), envPeer+"="+string(text)),
		Stdin: stdin, Stdout: stdout, Log: os.Stderr,
	})
	stdin.Close()
	stdout.Close()
	require.NoError(t, err)
	t.Cleanup(func() { proc.Kill(); in.Close(); out.Close() })
	p := &peer{job: j, proc: proc, in: in, answers: json.NewDecoder(out)}
	require.NoError(t, p.read(ctx, &p.peerReady))
	return p
}

// read takes the next answer.
func (p *peer) read(ctx context.Context, v any) error {
	done := make(chan error, 1)
	go func() { done <- p.answers.Decode(v) }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s: %w; its last log lines:\n%s", p.proc.Name, err, p.proc.Tail())
		}
		return nil
	case <-ctx.Done():
		p.proc.Kill()
		return fmt.Errorf("%s does not answer: %w", p.proc.Name, ctx.Err())
	}
}

func (p *peer) ask(ctx context.Context, t *testing.T, a peerAsk) (tell peerTell) {
	t.Helper()
	require.NoError(t, json.NewEncoder(p.in).Encode(a))
	require.NoError(t, p.read(ctx, &tell))
	return tell
}

// fill writes bytes that follow from seed and differ from place to place.
func fill(b []byte, seed uint64) {
	x := seed*0x9e3779b97f4a7c15 + 1
	next := func() uint64 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		return x
	}
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, next())
	}
	for i := range b {
		b[i] = byte(next())
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
