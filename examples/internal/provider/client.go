package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Client is the client of the provider. It returns an [*Error] when the provider, or
// something before it, has answered with a status that is not 200, and else the errors of
// net/http as they are.
type Client struct {
	URL  string
	HTTP *http.Client // nil is [http.DefaultClient]
}

// Error is an answer that is not 200. It matches [ErrDeclined] and [ErrFenceTooOld].
type Error struct {
	Method, URL string
	Status      int
	Text        string // the beginning of the body
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: %d %s: %s", e.Method, e.URL, e.Status, http.StatusText(e.Status), e.Text)
}

// Is matches the refusal that the status stands for.
func (e *Error) Is(target error) bool {
	return target == ErrDeclined && e.Status == http.StatusPaymentRequired ||
		target == ErrFenceTooOld && e.Status == http.StatusConflict
}

// Charge asks for a charge. Fence 0 sends none.
func (c Client) Charge(ctx context.Context, o Order, fence int64) (receipt Receipt, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return Receipt{}, err
	}
	err = c.call(ctx, http.MethodPost, "/charges", fence, body, &receipt)
	return receipt, err
}

// Charges asks for the charges of an order. With a fence, the provider accepts no smaller one
// from then on. Fence 0 only looks.
func (c Client) Charges(ctx context.Context, order string, fence int64) (receipts []Receipt, err error) {
	err = c.call(ctx, http.MethodGet, "/charges/"+url.PathEscape(order), fence, nil, &receipts)
	return receipts, err
}

// Book asks for the charges of every order.
func (c Client) Book(ctx context.Context) (book map[string][]Receipt, err error) {
	err = c.call(ctx, http.MethodGet, "/charges", 0, nil, &book)
	return book, err
}

func (c Client) call(ctx context.Context, method, path string, fence int64, body []byte, reply any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if fence != 0 {
		req.Header.Set(FenceHeader, strconv.FormatInt(fence, 10))
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return &Error{Method: method, URL: req.URL.String(), Status: resp.StatusCode, Text: string(bytes.TrimSpace(text))}
	}
	return json.NewDecoder(resp.Body).Decode(reply)
}
