package leasepage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// service is a process that runs guarded actions, and whose renewals can be made to fail. Its leases are
// late for five seconds before they are lost, so that a page that looks once a second sees both.
type service struct {
	*testing.T
	guard.Store
	g      *guard.Guard
	charge *guard.Operation[string]

	mu    sync.Mutex
	fails map[string]bool // keys whose renewals fail
}

func newService(t *testing.T, label, operation string) *service {
	t.Helper()
	s := &service{T: t, Store: guard.NewMemoryStore(), fails: map[string]bool{}}
	var err error
	if s.g, err = guard.New(s, guard.WithOwnerLabel(label)); err != nil {
		t.Fatal(err)
	}
	if s.charge, err = guard.NewOperation[string](s.g, operation, guard.WithLease(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *service) Renew(ctx context.Context, req guard.RenewRequest) (guard.RenewReply, error) {
	s.mu.Lock()
	fails := s.fails[req.Key.Name]
	s.mu.Unlock()
	if fails {
		return guard.RenewReply{}, errors.New("no renewal for this one")
	}
	return s.Store.Renew(ctx, req)
}

func (s *service) fail(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails[key] = true
}

// begin runs an action until it is told to end.
func (s *service) begin(key string) (end func()) {
	ending, running, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.charge.Do(context.Background(), key, func(context.Context) (string, error) {
			close(running)
			<-ending
			return "done", nil
		})
	}()
	<-running
	end = sync.OnceFunc(func() {
		close(ending)
		<-ended
	})
	s.Cleanup(end)
	return end
}

func (s *service) handler(opts ...telemetry.LeasesOption) http.Handler {
	s.Helper()
	h, err := telemetry.NewLeasesHandler(s.g, opts...)
	if err != nil {
		s.Fatal(err)
	}
	return h
}

// row is the expression of the row of a key.
func (s *service) row(key string) string {
	hash := s.g.KeyHash(guard.Key{Operation: "payment.charge", Name: key})
	return fmt.Sprintf(`[...document.querySelectorAll("#leases li")].find(
		(row) => row.querySelector("[data-field=key_hash]").textContent === %q)`, hash)
}

// load has actions that come and go until the test ends.
func (s *service) load(callers int) {
	ctx, stop := context.WithCancel(context.Background())
	var calling sync.WaitGroup
	for caller := range callers {
		calling.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := strconv.Itoa(caller) + "/" + strconv.Itoa(i)
				_, _ = s.charge.Do(ctx, key, func(ctx context.Context) (string, error) {
					select {
					case <-ctx.Done():
					case <-time.After(rand.N(300 * time.Millisecond)):
					}
					return "done", nil
				})
			}
		})
	}
	s.Cleanup(func() {
		stop()
		calling.Wait()
	})
}

func TestPage_UnderLoadLeasesAppearAgeAndVanishAndTheMostEndangeredIsFirst(t *testing.T) {
	s := newService(t, "billing-7/4711", "payment.charge")
	b := open(t, s.handler())
	b.visit()
	b.until("the page says that there are no leases", `!document.querySelector("#empty").hidden && document.body.innerText.includes("No leases")`)
	eval[bool](b, `window.notReloaded = true`)

	s.load(20)
	b.until("leases appear", `document.querySelectorAll("#leases li").length > 5 && document.querySelector("#empty").hidden`)
	s.begin("well")
	endShort := s.begin("short")
	s.fail("bad")
	endBad := s.begin("bad")
	for _, key := range []string{"well", "short", "bad"} {
		b.until(key+" appears", s.row(key)+` !== undefined`)
	}

	age := `parseFloat(` + s.row("well") + `.querySelector("[data-field=age]").textContent)`
	before := eval[float64](b, age)
	b.until("the lease ages", fmt.Sprintf("%s >= %v", age, before+2))

	first := `document.querySelector("#leases").firstElementChild === ` + s.row("bad")
	b.until("the endangered lease is late", s.row("bad")+`.dataset.state === "late"`)
	b.until("it is the first", first)
	b.until("it is lost", s.row("bad")+`.dataset.state === "lost"`)
	for _, expression := range []string{
		first,
		s.row("bad") + `.querySelector(".state").textContent === "lost"`,
		s.row("bad") + `.querySelector(".note.lost").checkVisibility()`,
		`!` + s.row("bad") + `.querySelector(".note.late").checkVisibility()`,
		`document.querySelector("#counts .lost b").textContent === "1"`,
		`document.title.startsWith("1 lost, ")`,
		s.row("well") + `.dataset.state === "fine"`,
		`document.querySelector("#owner").textContent === "billing-7/4711"`,
	} {
		if !eval[bool](b, expression) {
			t.Errorf("not so: %s\nthe page: %s", expression, eval[string](b, "document.body.innerText"))
		}
	}
	b.until("the shares of the leases grow from the second row on", `(() => {
		const shares = [...document.querySelectorAll("#leases rect")].slice(1).map((rect) => parseFloat(rect.getAttribute("width")));
		return shares.length > 5 && shares.every((share, i) => i === 0 || shares[i - 1] <= share);
	})()`)

	endShort()
	b.until("what has ended vanishes", s.row("short")+` === undefined`)
	endBad()
	b.until("the lost one vanishes too", s.row("bad")+` === undefined && document.querySelector("#counts .lost b").textContent === "0"`)
	if !eval[bool](b, `window.notReloaded === true && `+s.row("well")+` !== undefined`) || b.pages.Load() != 1 {
		t.Errorf("the page was loaded %d times: its script is to refresh it", b.pages.Load())
	}
	b.wantNoComplaint()
}
