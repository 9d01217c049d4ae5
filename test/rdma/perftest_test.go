package rdma

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// perftest is one of the programs of the perftest package.
type perftest struct {
	program string
	// args come besides those that all have.
	args []string
	// column has the figure in the line of numbers that it prints; scale makes it the unit
	// of the report.
	column int
	scale  float64
}

// perftest counts in MiB; ib_*_bw prints size, iterations, peak, average; ib_*_lat prints
// size, iterations, minimum, maximum, typical in microseconds.
var (
	writeBW  = perftest{"ib_write_bw", pairs, 3, 1.048576}
	readBW   = perftest{"ib_read_bw", pairs, 3, 1.048576}
	writeLat = perftest{"ib_write_lat", nil, 4, 1}
	readLat  = perftest{"ib_read_lat", nil, 4, 1}

	// pairs gives a program as many queue pairs as the transport has.
	pairs = []string{"-q", "2"}
)

const (
	// perftestTries is how often a measurement may end without a figure.
	perftestTries = 3
	// perftestLimit bounds one try.
	perftestLimit = 45 * time.Second
)

// run measures between the two devices, with so many iterations in all. A measurement may
// come without a figure: the program gauges the processor's clock first, and gives up on one
// that is too uneven.
func (p perftest) run(ctx context.Context, size, iterations int) (figure float64, err error) {
	if len(p.args) > 0 {
		iterations /= 2 // They are those of each queue pair.
	}
	for range perftestTries {
		var out string
		if out, err = p.measure(ctx, size, max(iterations, 8)); err == nil {
			if figure, err = p.parse(out); err == nil {
				return figure, nil
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return 0, err
}

// measure runs the program as a process for each device. GID 1 is the IPv4 address.
func (p perftest) measure(ctx context.Context, size, iterations int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, perftestLimit)
	defer cancel()
	args := append([]string{"-F", "-x", "1", "-s", strconv.Itoa(size), "-n", strconv.Itoa(iterations)}, p.args...)
	server := command(ctx, "", p.program, append([]string{"-d", deviceB}, args...)...)
	var said bytes.Buffer
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Wait()
	}()
	defer func() {
		cancel() // It has ended, if all went well.
		<-ended
	}()
	for {
		text, err := command(ctx, "", p.program, append(append([]string{"-d", deviceA}, args...), "127.0.0.1")...).CombinedOutput()
		switch {
		case err == nil:
			return string(text), nil
		case !strings.Contains(string(text), "Couldn't connect"):
			return "", fmt.Errorf("%s %q: %w\n%s", p.program, args, err, text)
		}
		select { // The server takes a moment to listen.
		case <-time.After(5 * time.Millisecond):
		case <-ended:
			return "", fmt.Errorf("the server of %s %q has ended:\n%s", p.program, args, said.String())
		case <-ctx.Done():
			return "", fmt.Errorf("%s %q: %w", p.program, args, ctx.Err())
		}
	}
}

// parse takes the figure out of what the program printed.
func (p perftest) parse(out string) (float64, error) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) <= p.column {
			continue
		}
		if _, err := strconv.Atoi(fields[0]); err != nil {
			continue
		}
		v, err := strconv.ParseFloat(fields[p.column], 64)
		if err == nil && v > 0 {
			return v * p.scale, nil
		}
	}
	return 0, fmt.Errorf("%s printed no figure:\n%s", p.program, out)
}

func TestParsePerftest(t *testing.T) {
	const bw = ` #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      300              53.98              50.00  		   0.000837
`
	v, err := writeBW.parse(bw)
	require.NoError(t, err)
	require.InDelta(t, 52.4288, v, 1e-6)
	const lat = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]
 8       200          25.92          6238.76      28.39    	       65.51       	436.09 		6145.90 		6238.76
`
	v, err = writeLat.parse(lat)
	require.NoError(t, err)
	require.InDelta(t, 28.39, v, 1e-9)
	_, err = writeBW.parse("Unable to open device\n")
	require.Error(t, err)
	require.NotErrorIs(t, err, exec.ErrNotFound)
}
