package lean

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/internal/callctx"
	"github.com/mooncake-go/mooncake/core/internal/framed"
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// TestMessagesAreFreeWhenACallReturns: calls that end at about the moment when their answer comes
// use one request and one reply again and again. An answer that is too late would be another
// call's, and is a race.
func TestMessagesAreFreeWhenACallReturns(t *testing.T) {
	addr, _ := serve(t, &echo{}, framed.Limits{})
	c, _ := dial(t, addr, ClientOptions{Timeout: patient})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			in, out := &masterv1.ExistRequest{Keys: [][]byte{nil}}, &masterv1.ExistResponse{}
			key := make([]byte, 100)
			var ctx callctx.Call
			for k := range 3000 {
				ctx.Begin(t.Context())
				in.Keys[0] = key[:k%100]
				key[0]++
				out.Reset()
				over := make(chan struct{})
				go func() {
					defer close(over)
					if k%2 == 0 {
						time.Sleep(time.Duration(k%50) * time.Microsecond)
						ctx.End(errors.New("enough"))
					}
				}()
				err := c.Invoke(&ctx, masterv1.MasterService_Exist_FullMethodName, in, out)
				<-over
				switch {
				case err == nil && (len(out.GetErrors()) != 1 || int(out.GetErrors()[0].GetIndex()) != k%100):
					t.Errorf("call %d got %v", k, out)
				case err != nil && (k%2 != 0 || status.Code(err) != codes.Canceled):
					t.Error(err)
				}
				require.True(t, ctx.Finish(), "no code asked for a derived context")
			}
		})
	}
	all.Wait()
}

// TestEveryEndOfACall ends one that is never answered: its caller's, its own, the limit of a call
// that its caller cannot end, and the client's timeout. The server hears of each.
func TestEveryEndOfACall(t *testing.T) {
	began, heard := make(chan struct{}), make(chan struct{})
	e := &echo{ready: func(ctx context.Context) (string, error) {
		began <- struct{}{}
		<-ctx.Done()
		heard <- struct{}{}
		return "", ctx.Err()
	}}
	addr, _ := serve(t, e, framed.Limits{})
	c, _ := dial(t, addr, ClientOptions{})
	hasty, _ := dial(t, addr, ClientOptions{Timeout: 50 * time.Millisecond})
	parent, leave := context.WithCancel(t.Context())
	for name, test := range map[string]struct {
		client *Client
		begin  func(*callctx.Call)
		end    func(*callctx.Call)
		want   codes.Code
	}{
		"caller":  {c, func(ctx *callctx.Call) { ctx.Begin(parent) }, func(*callctx.Call) { leave() }, codes.Canceled},
		"own":     {c, func(ctx *callctx.Call) { ctx.Begin(t.Context()) }, func(ctx *callctx.Call) { ctx.End(errors.New("x")) }, codes.Canceled},
		"limit":   {c, func(ctx *callctx.Call) { ctx.BeginDetached(t.Context(), time.Now().Add(50*time.Millisecond)) }, func(*callctx.Call) {}, codes.DeadlineExceeded},
		"timeout": {hasty, func(ctx *callctx.Call) { ctx.Begin(t.Context()) }, func(*callctx.Call) {}, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			var ctx callctx.Call
			test.begin(&ctx)
			got := make(chan error)
			go func() {
				got <- test.client.Invoke(&ctx, masterv1.MasterService_Ready_FullMethodName, &masterv1.ReadyRequest{}, &masterv1.ReadyResponse{})
			}()
			<-began
			test.end(&ctx)
			err := <-got
			require.Equal(t, test.want, status.Code(err), "%v", err)
			<-heard
			require.True(t, ctx.Finish())
		})
	}
}
