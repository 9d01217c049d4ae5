package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// readJSON decodes the body into v, whatever its content type says, as upstream does. It
// refuses what JSON would change silently: bytes that are not UTF-8, a second value.
// strict refuses names that v does not have.
func readJSON(r *http.Request, v any, strict bool) error {
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return errs.New(errs.InvalidParams, "admin", "the body is larger than %d bytes: %w", maxBody, err)
	case err != nil:
		return errs.New(errs.InvalidParams, "admin", "the body could not be read: %w", err)
	}
	return decodeJSON(body, v, strict)
}

func decodeJSON(body []byte, v any, strict bool) error {
	const op = "admin: Invalid JSON body"
	if !utf8.Valid(body) {
		return errs.New(errs.InvalidParams, op, "it is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if strict {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return errs.Wrap(errs.InvalidParams, op, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errs.New(errs.InvalidParams, op, "something follows the value")
	}
	return nil
}
