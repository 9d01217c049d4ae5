package certs

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/core/certs/workload"
)

func (e verbs) spiffeCmd() *cobra.Command {
	o := workload.Options{}
	cmd := &cobra.Command{
		Use:   "spiffe DIR",
		Short: "Take the certificate of this machine's processes from a SPIFFE agent, and keep it renewed",
		Long: `Asks the SPIFFE Workload API, for example of a SPIRE agent, for an X.509 certificate, and writes DIR/ca.pem,
DIR/cert.pem and DIR/key.pem, for this user alone, now and whenever the agent has new ones. The settings ca, cert and
key of the section security name these files: processes and plugins take changed files up without a restart.

It runs until it is interrupted. With --once it ends when the files are there.`,
		Example: "  mooncake certs spiffe /run/mooncake/certs --socket unix:///run/spire/agent.sock",
		Args:    command.Args(1, 1, "a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Folder, o.Log = args[0], slog.New(slog.NewTextHandler(e.Stderr, nil))
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			return workload.Follow(ctx, o, func(s *x509svid.SVID) {
				f := workload.Files(o.Folder)
				fmt.Fprintf(e.Stdout, "%s, until %s\n", s.ID, s.Certificates[0].NotAfter.UTC().Format(time.RFC3339))
				_ = e.saySecurity(f.CA, certs.Files{Cert: f.Cert, Key: f.Key}) // The files are there, whether or not the output is read.
			})
		},
	}
	cmd.Flags().StringVar(&o.Socket, "socket", defaultSocket(), "where the Workload API is")
	cmd.Flags().DurationVar(&o.Wait, "wait", 30*time.Second, "how long to wait for the first certificate")
	cmd.Flags().BoolVar(&o.Once, "once", false, "end when the files are written")
	return cmd
}

// defaultSocket is what the SPIFFE standard names.
func defaultSocket() string {
	if s := os.Getenv("SPIFFE_ENDPOINT_SOCKET"); s != "" {
		return s
	}
	return "unix:///run/spire/agent.sock"
}
