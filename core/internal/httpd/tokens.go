package httpd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/tokens"
)

// identified gives requests the identities of their tokens, where d takes tokens at the door. A request without one has the identity
// of its connection.
func identified(h http.Handler, d *doors.Doors, door config.Door) http.Handler {
	verifier := d.Tokens(door)
	if verifier == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, shown, err := identify(r, verifier)
		switch {
		case err != nil:
			refuse(w, r, d.Access(), door, err)
		case !shown:
			h.ServeHTTP(w, r)
		default:
			ctx, cancel := context.WithDeadline(access.ByToken(r.Context(), b.Identity, door), b.Until)
			defer cancel()
			defer cut(ctx)()
			h.ServeHTTP(w, r.WithContext(ctx))
		}
	})
}

// identify returns what the token of a request proves, and whether it has one. An error is a *tokens.Refusal.
func identify(r *http.Request, v *tokens.Verifier) (b tokens.Bearer, shown bool, err error) {
	p := access.Of(r.Context())
	token, refusal := bearer(r.Header)
	switch {
	case refusal != nil:
		return b, false, refusal
	case token == "" && p.Anonymous():
		return b, false, tokens.Refuse("missing", "this port wants a certificate of the pool in the TLS handshake, or the header Authorization: Bearer TOKEN "+
			"with a token that security.tokens of this process knows; commands take --token-file FILE")
	case token == "":
		return b, false, nil
	case p != nil && !p.Anonymous():
		return b, false, tokens.Refuse("twice", "the connection has the certificate of %s, and the request a token; show one of them", p.Identity)
	}
	b, err = v.Verify(r.Context(), token)
	return b, err == nil, err
}

// bearer returns the token of a request (RFC 6750, section 2.1), empty for none. Other schemes than Bearer are none.
func bearer(h http.Header) (string, *tokens.Refusal) {
	values := h["Authorization"]
	if len(values) > 1 {
		return "", tokens.Refuse("twice", "the request has %d headers Authorization; show one", len(values))
	}
	if len(values) == 0 {
		return "", nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil
	}
	if token = strings.Trim(token, " "); !tokens.WellFormed(token) {
		return "", tokens.Refuse("malformed", "what follows Bearer is not one token of at most %d bytes", tokens.MaxToken)
	}
	return token, nil
}

// cut returns a function to call when a request is over. Where the token ends before, the connection is closed, so that no
// answer goes on for an identity that has ended.
func cut(ctx context.Context) (over func()) {
	conn, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok {
		return func() {}
	}
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			_ = conn.Close()
		}
	})
	return func() { stop() }
}

// refuse answers a request whose token is not good, or missing.
func refuse(w http.ResponseWriter, r *http.Request, control *access.Control, door config.Door, err error) {
	reason := "malformed"
	var refusal *tokens.Refusal
	if errors.As(err, &refusal) {
		reason = refusal.Reason
	}
	control.Unidentified(r.Context(), door, reason, err)
	status, challenge := http.StatusUnauthorized, `Bearer realm="mooncake", error="invalid_token"`
	switch reason {
	case "missing":
		challenge = `Bearer realm="mooncake"`
	case "twice":
		status, challenge = http.StatusBadRequest, `Bearer realm="mooncake", error="invalid_request"`
	case "unavailable":
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "10")
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.Header().Set("Connection", "close") // The body is not read.
	http.Error(w, err.Error(), status)
}
