package tcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// serveEnv makes a test binary a peer of BenchmarkAgainstIperf3: its value is a
	// configuration.
	serveEnv = "MOONCAKE_TCP_TEST_SERVE"
	// iperfSpan is the memory that each side has registered.
	iperfSpan = 64 << 20
	// iperfBlock is the largest block that iperf3 takes.
	iperfBlock = 1 << 20
	// iperfRounds are the rounds of a figure, which is their median.
	iperfRounds = 5
)

// published is what a peer needs of a serving process.
type published struct {
	Endpoint transport.Endpoint
	Key      transport.Key
}

// serveBench registers memory, tells the parent how to reach it, and serves until standard
// input ends.
func serveBench() int {
	cfg := loopback()
	if err := json.Unmarshal([]byte(os.Getenv(serveEnv)), cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	n := newNode(*cfg)
	ctx := context.Background()
	if err := n.Start(ctx, quiet{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	key, err := n.Register(ctx, transport.Region{ID: 1, Mem: make([]byte, iperfSpan), FD: -1, Access: transport.AccessRemote})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(published{n.Endpoint(), key})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = n.Stop(ctx)
	return 0
}

// served starts a serving process and returns a pair that has only the client, and the
// process.
func served(b *testing.B, cfg *Config) (*pair, int) {
	text, err := json.Marshal(cfg)
	require.NoError(b, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(b, err)
	var p published
	require.NoError(b, json.Unmarshal(line, &p))
	r := &pair{client: newNode(*cfg), key: p.Key}
	require.NoError(b, r.client.Start(context.Background(), quiet{}))
	b.Cleanup(func() { require.NoError(b, r.client.Stop(context.Background())) })
	r.dial(b, p.Endpoint)
	return r, cmd.Process.Pid
}

// figure is what one round gave.
type figure struct {
	rate float64 // bytes a second
	work float64 // bytes for a second of processor time, both ends together
}

// iperf runs iperf3 for a second, server and client.
func iperf(b *testing.B, streams, size int, read bool) figure {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	require.NoError(b, ln.Close())
	server := exec.Command("iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", port)
	require.NoError(b, server.Start())
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	args := []string{"-c", "127.0.0.1", "-p", port, "-t", "1", "-J", "-P", strconv.Itoa(streams), "-l", strconv.Itoa(min(size, iperfBlock))}
	if read {
		args = append(args, "-R")
	}
	for range 50 { // Until the server listens.
		var out []byte
		if out, err = exec.Command("iperf3", args...).Output(); err == nil {
			var report struct {
				End struct {
					Received struct {
						Rate float64 `json:"bits_per_second"`
					} `json:"sum_received"`
					CPU struct {
						Here  float64 `json:"host_total"`
						There float64 `json:"remote_total"`
					} `json:"cpu_utilization_percent"`
				}
			}
			require.NoError(b, json.Unmarshal(out, &report))
			if rate := report.End.Received.Rate / 8; rate > 0 {
				return figure{rate, rate * 100 / (report.End.CPU.Here + report.End.CPU.There)}
			}
			err = fmt.Errorf("no result: %.300s", out)
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.Fatalf("iperf3: %v", err)
	return figure{}
}

// processorTime is what this process and its child have used.
func processorTime(b *testing.B, child int) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	require.NoError(b, err)
	system, err := strconv.Atoi(fields[12])
	require.NoError(b, err)
	const tick = 10 * time.Millisecond
	return time.Duration(u.Utime.Nano()+u.Stime.Nano()) + time.Duration(user+system)*tick
}

// BenchmarkAgainstIperf3 puts this transport beside iperf3 with as many streams and the
// same block, where it can, in turn, each with its two ends in two processes. One round is a second of
// each; a figure is the median of five.
func BenchmarkAgainstIperf3(b *testing.B) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		b.Skip("iperf3 is not installed")
	}
	for _, streams := range []int{1, 2, 4} {
		peers, children := map[bool]*pair{}, map[bool]int{}
		for _, sums := range []bool{false, true} {
			cfg := loopback()
			cfg.ConnectionsPerPeer, cfg.Checksum = streams, sums
			peers[sums], children[sums] = served(b, cfg)
		}
		for _, size := range []int{64 << 10, 1 << 20, 4 << 20} {
			for kind, name := range map[transport.OpKind]string{transport.Write: "write", transport.Read: "read"} {
				b.Run(fmt.Sprintf("streams=%d/size=%dK/%s", streams, size>>10, name), func(b *testing.B) {
					local := make([]byte, streams*size)
					ours := func(sums bool) figure {
						begin, before, moved := time.Now(), processorTime(b, children[sums]), 0
						for chunk := (256 << 20) / size; time.Since(begin) < time.Second; moved += chunk * size {
							peers[sums].repeat(b, kind, local, size, streams, chunk)
						}
						work := processorTime(b, children[sums]) - before
						return figure{float64(moved) / time.Since(begin).Seconds(), float64(moved) / work.Seconds()}
					}
					var all [3]figures
					for b.Loop() {
						for range iperfRounds {
							all[0].add(iperf(b, streams, size, kind == transport.Read))
							all[1].add(ours(false))
							all[2].add(ours(true))
						}
					}
					b.ReportMetric(median(all[0].rate)/1e9, "iperf3-GB/s")
					for i, label := range []string{"", "crc-"} {
						b.ReportMetric(median(all[1+i].rate)/1e9, label+"GB/s")
						b.ReportMetric(all[1+i].of(&all[0], func(f *figures) []float64 { return f.rate }), label+"of-iperf3")
						b.ReportMetric(all[1+i].of(&all[0], func(f *figures) []float64 { return f.work }), label+"of-iperf3-per-cpu")
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// repeat moves the same blocks again and again, one for each stream, as iperf3 does: memory
// that stays in the caches of the processor on both sides. Enough is in flight to keep each
// stream busy.
func (r *pair) repeat(b *testing.B, kind transport.OpKind, local []byte, size, streams, count int) {
	ctx := context.Background()
	depth := streams * max(2, (1<<20)/size)
	ops, dst := make([]transport.Op, depth), make([]transport.Completion, depth)
	for i := range ops {
		at := i % streams * size
		ops[i] = transport.Op{Kind: kind, Local: local[at : at+size], Remote: r.id, Offset: uint64(at)}
	}
	for sent, ended := 0, 0; ended < count; {
		n, err := r.path.Submit(ops[:min(depth-(sent-ended), count-sent)])
		require.NoError(b, err)
		sent += n
		n, err = r.path.Reap(ctx, dst)
		require.NoError(b, err)
		for _, c := range dst[:n] {
			require.Equal(b, transport.OK, c.Status, "%v", c.Err)
		}
		ended += n
	}
}

// figures are the rounds of one figure.
type figures struct{ rate, work []float64 }

func (f *figures) add(x figure) { f.rate, f.work = append(f.rate, x.rate), append(f.work, x.work) }

// of is the median of the ratios, round by round.
func (f *figures) of(other *figures, field func(*figures) []float64) float64 {
	a, b := field(f), field(other)
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}
