package app

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// earlierMaster serves the calls of a master, without those that an earlier release does not know, and returns its
// address.
func earlierMaster(t *testing.T, master string, unknown ...string) string {
	conn, err := grpc.NewClient(master, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	desc := masterv1.MasterService_ServiceDesc
	desc.HandlerType, desc.Methods = (*any)(nil), slices.Clone(desc.Methods)
	desc.Methods = slices.DeleteFunc(desc.Methods, func(d grpc.MethodDesc) bool { return slices.Contains(unknown, d.MethodName) })
	require.Len(t, desc.Methods, len(masterv1.MasterService_ServiceDesc.Methods)-len(unknown))
	methods := masterv1.File_mooncake_master_v1_master_proto.Services().ByName("MasterService").Methods()
	for i, d := range desc.Methods {
		is := methods.ByName(protoreflect.Name(d.MethodName))
		desc.Methods[i].Handler = func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in, out := message(t, is.Input()), message(t, is.Output())
			if err := decode(in); err != nil {
				return nil, err
			}
			return out, conn.Invoke(ctx, "/"+desc.ServiceName+"/"+d.MethodName, in, out)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, f, g := lean.NewServer(framed.Limits{}), framed.NewServer(), grpc.NewServer()
	s.RegisterService(&desc, struct{}{})
	f.Register(foreign.Lean, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(f.Split(ln))
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		g.Stop()
		f.Stop(ctx)
		<-done
		require.NoError(t, conn.Close())
	})
	return ln.Addr().String()
}

func message(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	is, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	require.NoError(t, err)
	return is.New().Interface()
}

// TestAStandbyOfALeaderOfAnEarlierRelease: it says that it learns nothing, once.
func TestAStandbyOfALeaderOfAnEarlierRelease(t *testing.T) {
	c := newCluster(t)
	leadership, err := c.backend.Acquire(t.Context(), earlierMaster(t, localMaster(t), "Follow"))
	require.NoError(t, err)
	var log logbuf.Buffer
	startLoggingCandidate(t, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), strings.TrimPrefix(c.address, "etcd://"),
		func(m *config.Master) { m.ClusterID = "blue" })
	count := func(text string) int { return strings.Count(log.String(), text) }
	require.Eventually(t, func() bool { return count("the leader does not take that this master follows it") > 0 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, 1, count("the leader is of an earlier release"), log.String())
	require.NoError(t, leadership.Resign(t.Context()))
}

// TestMastersOfEarlierReleases: stores and clients do without the calls that a master does not know, which their log
// says once.
func TestMastersOfEarlierReleases(t *testing.T) {
	for name, c := range map[string]struct {
		unknown []string
		says    string
	}{
		"no ledgers":   {[]string{"Attach", "Report", "Pull", "Follow", "Why", "QueryHosts"}, "this master keeps no ledgers"},
		"no followers": {[]string{"Follow"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			address := earlierMaster(t, localMaster(t), c.unknown...)
			var log logbuf.Buffer
			node, err := OpenNode(ctx, nodeSettings(t, address, func(s *config.Store) { s.GlobalSegmentSize = 16 * config.MiB }), builtins(),
				NodeOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			defer closeNode(t, node)
			page := []byte("a page")
			require.NoError(t, node.Client.Put(ctx, "k", page, model.DefaultReplicateConfig()))
			got, err := node.Client.Get(ctx, "k")
			require.NoError(t, err)
			require.Equal(t, page, got)
			if slices.Contains(c.unknown, "Why") {
				_, err = node.Client.Why(ctx, "k")
				assert.ErrorIs(t, err, errs.NotSupported.Err())
				assert.ErrorContains(t, err, "the master does not know this call")
			}
			if c.says != "" {
				assert.Equal(t, 1, strings.Count(log.String(), c.says), log.String())
			}
		})
	}
}
