package endings

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/internal/realtest"
)

// workerVariable is in the environment of a process that is to be a worker and to be killed.
const workerVariable = "ONCEGUARD_ENDINGS_WORKER"

// orders is what such a process is told.
type orders struct{ Temporal, Redis, ID, Ending string }

// beWorker serves the activity of a scenario until its standard input ends.
func beWorker(told string) int {
	var o orders
	if json.Unmarshal([]byte(told), &o) != nil {
		return 2
	}
	c, err := client.Dial(client.Options{
		HostPort: o.Temporal, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return 3
	}
	for _, e := range endings() {
		if e.name != o.Ending {
			continue
		}
		l, err := newLab(context.Background(), redis.NewClient(&redis.Options{Addr: o.Redis}), o.ID, e.setup)
		if err != nil || l.newWorker(c).Start() != nil {
			return 4
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent is gone
	}
	return 5
}

// killed lets a process of its own begin the activity, kills it, and has this one go on.
func killed(ending string) func(*lab) {
	return func(l *lab) {
		told, err := json.Marshal(orders{l.site.server.Addr(), l.redis.Options().Addr, l.id, ending})
		if err != nil {
			l.t.Fatal(err)
		}
		child, err := realtest.StartChild(func(string) {}, workerVariable+"="+string(told))
		if err != nil {
			l.t.Fatal(err)
		}
		defer func() {
			child.Kill()
			if l.t.Failed() {
				l.t.Log(child.Errors())
			}
		}()
		run := l.begin()
		l.until("charged by the child", func() bool { return l.effects() == 1 })
		child.Kill()
		l.start()
		l.over(run)
	}
}

// awaitsStop ends well when its worker stops.
func awaitsStop(ctx context.Context, _ *lab, _ int64) error {
	<-activity.GetWorkerStopChannel(ctx)
	return nil
}

// stopped stops the worker when the activity has had its effect, and starts another one.
func stopped(l *lab) client.WorkflowRun {
	w := l.start()
	run := l.begin()
	l.effect()
	w.Stop()
	l.start()
	return run
}

func ofWorkers() []ending {
	over := func(l *lab) { l.over(stopped(l)) }
	// The lease of the dead has run out when the next attempt comes.
	dies := func(s setup) setup {
		s.then, s.lease, s.plan = hangs, time.Second, plan{StartToClose: 3 * time.Second}
		return s
	}
	// A poll of a worker that has stopped may lose an attempt that comes soon.
	leaves := plan{StartToClose: 5 * time.Second, Pause: time.Second}
	kill := func(name string, s setup) ending { return ending{name: name, setup: dies(s), run: killed(name)} }
	return []ending{
		{
			name: "the worker stops, the activity ends in its grace", run: over,
			setup: setup{then: awaitsStop, worker: worker.Options{WorkerStopTimeout: scenarioLimit}},
		},
		{
			name: "the worker stops, the activity outlives it", run: func(l *lab) {
				run := stopped(l)
				l.askedTwice()
				close(l.goOn)
				l.over(run)
			},
			setup: setup{then: hangs, plan: plan{StartToClose: tooShort}},
		},
		{name: "the worker stops without grace, heeded", run: over, setup: setup{then: heeds, plan: leaves}},
		{
			name: "the worker stops without grace, heeded, `AtMostOnce`", run: over,
			setup: setup{then: heeds, plan: leaves, options: atMostOnce()},
		},
		kill("the worker is killed", setup{}),
		kill("the worker is killed, `AtMostOnce`", setup{options: atMostOnce()}),
		kill("the worker is killed, `Recovery`", setup{recovers: true, options: atMostOnce()[:1]}),
	}
}
