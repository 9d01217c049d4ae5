package netem

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const memberEnv = "MOONCAKE_NETEM_MEMBER"

// member is what a process of a cell is told: a target or a client of the engine, a client of the
// store, or, with Args, the program mooncake.
//
// A target or client prints an answer when it is ready, and one for each line of its standard
// input, which names what to do. It ends with its input.
type member struct {
	Role      string // "target", "client", "store" or "program"
	Args      []string
	Transport string
	Host      string // the own address
	Master    string // of a client of the store
	Number    int    // of a client
	Clients   int
	Size      int // bytes of a request
	Peer      place
}

// place is where a target has its memory.
type place struct {
	Segment string
	Addr    uint64
}

// answer is what a member says about one command.
type answer struct {
	Peer place // of a target that is ready
	// Requests were made; Failed counts those that failed, by their codes; Wrong counts those
	// that succeeded with other bytes than were asked for.
	Requests int
	Failed   map[string]int
	Wrong    int
	Seconds  float64 // that the requests took
	// Notes are the first error of each code.
	Notes map[string]string
}

// fails counts a failure.
func (a *answer) fails(err error) {
	if a.Failed == nil {
		a.Failed, a.Notes = map[string]int{}, map[string]string{}
	}
	code := strconv.Itoa(int(errs.CodeOf(err)))
	if a.Failed[code]++; a.Notes[code] == "" {
		a.Notes[code] = err.Error()
	}
}

// actor is a member at work.
type actor interface {
	do(ctx context.Context, command string) (answer, error)
}

// playMember is the main function of a member's process. The exit status is the process's.
func playMember(text string) int {
	var m member
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if m.Role == "program" {
		return cli.Main(append([]string{"mooncake"}, m.Args...), builtin.Plugins())
	}
	if err := m.serve(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "%s %d: %v\n", m.Role, m.Number, err)
		return 1
	}
	return 0
}

// serve opens the actor and answers commands. The process's end closes what is open: closing in
// order would send farewells over the link.
func (m *member) serve(ctx context.Context) error {
	out := json.NewEncoder(os.Stdout)
	a, ready, err := m.open(ctx)
	if err != nil {
		return err
	}
	if err := out.Encode(ready); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		reply, err := a.do(ctx, strings.TrimSpace(line))
		if err != nil {
			return err
		}
		if err := out.Encode(reply); err != nil {
			return err
		}
	}
}

func (m *member) open(ctx context.Context) (actor, answer, error) {
	switch m.Role {
	case "target":
		return openTarget(ctx, m)
	case "client":
		return openEngineClient(ctx, m)
	case "store":
		return openStoreClient(ctx, m)
	default:
		return nil, answer{}, fmt.Errorf("no such role: %s", m.Role)
	}
}

// config is what an engine or client of this member runs with: the defaults, over one transport.
func (m *member) config() (config.Config, error) {
	loaded, err := config.Load(config.Options{Role: config.RoleClient})
	if err != nil {
		return config.Config{}, err
	}
	cfg := loaded.Config
	cfg.Store.MetadataServer, cfg.Store.LocalHostname = "P2PHANDSHAKE", m.Host
	cfg.Store.MasterServerAddress = m.Master
	cfg.Store.Protocol, cfg.Store.Transports = m.Transport, []string{m.Transport}
	if m.Transport == "quic" {
		cfg.Plugins.Transport = map[string]config.Plugin{"quic": {Mode: config.ModeAuto, Required: true, Config: map[string]any{"insecure_dev": true}}}
	}
	cfg.Admin.Socket = config.SocketOff
	return cfg, nil
}

// programArgs are the flags by which the program mooncake gets the same configuration.
func programArgs(transport, host string) []string {
	args := []string{"--metadata_server", "P2PHANDSHAKE", "--local_hostname", host, "--protocol", transport, "--transports", transport, "--admin_socket", "off"}
	if transport == "quic" {
		args = append(args, "--set", "plugins.transport.quic.config.insecure_dev=true", "--set", "plugins.transport.quic.required=true")
	}
	return args
}

func memberLog() *slog.Logger {
	level := slog.LevelError
	if os.Getenv("NETEM_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// pattern fills b with bytes that only this seed gives.
func pattern(b []byte, seed string) {
	var key [32]byte
	copy(key[:], seed)
	_, _ = rand.NewChaCha8(key).Read(b) // It never fails.
}
