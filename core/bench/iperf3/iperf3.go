// Package iperf3 measures plain TCP connections over loopback with the program of that name.
package iperf3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// ErrNotInstalled says that there is no program iperf3.
var ErrNotInstalled = errors.New("iperf3 is not installed")

// startLimit bounds how long the server may take to listen.
const startLimit = 10 * time.Second

// Server is an iperf3 server on loopback. It takes one Measure at a time.
type Server struct {
	program, port string
	proc          *cluster.Proc
}

// Start starts a server and waits until it listens. log receives what it writes, nil for none.
func Start(log io.Writer) (*Server, error) {
	program, err := exec.LookPath("iperf3")
	if err != nil {
		return nil, ErrNotInstalled
	}
	ports, err := cluster.FreePorts(1)
	if err != nil {
		return nil, err
	}
	s := &Server{program: program, port: strconv.Itoa(ports[0])}
	s.proc, err = cluster.Start(cluster.Spec{Name: "iperf3 server", Program: program, Args: []string{"-s", "-B", "127.0.0.1", "-p", s.port}, Log: log})
	if err != nil {
		return nil, err
	}
	// A connection to the port would be a client that says nothing.
	if err := cluster.Poll(s.proc, startLimit, func() error {
		if cluster.Vacant(ports[0]) {
			return errors.New("it does not listen")
		}
		return nil
	}); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the server.
func (s *Server) Close() { s.proc.Kill() }

// Result is what a client measured.
type Result struct {
	// GBps is the speed at which the bytes arrived.
	GBps float64
	// CPU is the processor time of the server and the client for a GB, in seconds, 0 where it is not known.
	CPU float64
}

// Measure moves bytes over a number of connections, from the server if read is set and to it
// otherwise. args are further flags of the client, which say how much it moves.
func (s *Server) Measure(ctx context.Context, streams int, read bool, args ...string) (Result, error) {
	args = slices.Concat([]string{"-c", "127.0.0.1", "-p", s.port, "-P", strconv.Itoa(streams)}, args, []string{"-J"})
	if read {
		args = append(args, "-R")
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Stdout = &out
	before, err := s.proc.CPUTime()
	if err != nil {
		return Result{}, err
	}
	ended := cmd.Run()
	r, bytes, err := parse(out.Bytes(), ended)
	if err != nil {
		return r, err
	}
	after, err := s.proc.CPUTime()
	if bytes > 0 {
		used := after - before + cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		r.CPU = used.Seconds() / bytes * 1e9
	}
	return r, err
}

// parse reads what a client wrote with -J: its speed, and how many bytes arrived. runErr is how the client ended.
func parse(text []byte, runErr error) (r Result, bytes float64, err error) {
	var doc struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				Bytes         float64 `json:"bytes"`
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return r, 0, errors.Join(runErr, fmt.Errorf("iperf3's answer is no JSON: %w", err))
	}
	switch {
	case doc.Error != "":
		return r, 0, errors.New(strings.TrimSpace(doc.Error))
	case runErr != nil:
		return r, 0, runErr
	case doc.End.Received.BitsPerSecond <= 0:
		return r, 0, errors.New("iperf3's answer has no speed")
	}
	return Result{GBps: doc.End.Received.BitsPerSecond / 8e9}, doc.End.Received.Bytes, nil
}
