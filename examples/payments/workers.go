package main

import (
	"context"
	"fmt"
)

// workerChild is a worker process.
type workerChild struct {
	*child
	metrics string // URL
}

// startWorker starts a worker for a part and waits until it takes work.
func (d *demo) startWorker(ctx context.Context, p *part, config workerConfig) (*workerChild, error) {
	d.workers++
	config.name = fmt.Sprintf("worker-%d", d.workers)
	config.temporal, config.redis, config.provider = d.temporalAddr, d.redisAddr, d.provider.URL
	config.queue, config.guarded = p.order.ID, p.useGuard
	if config.slots == 0 {
		config.slots = 1
	}
	c, err := d.family.start(program{
		name: config.name, path: d.self, args: append([]string{"worker"}, config.args()...), ours: true,
	})
	if err != nil {
		return nil, err
	}
	metrics, err := c.await(ctx, wordReady)
	if err != nil {
		return nil, err
	}
	d.console.say("%s is ready, process %d", c.name, c.cmd.Process.Pid)
	return &workerChild{child: c, metrics: metrics}, nil
}

// collect adds the worker's counters to the part's.
func (w *workerChild) collect(ctx context.Context, p *part) error {
	more, err := scrape(ctx, w.metrics)
	if err != nil {
		return err
	}
	p.counters.add(more)
	return nil
}

// retire collects the worker's counters and ends it.
func (w *workerChild) retire(ctx context.Context, p *part) error {
	if err := w.collect(ctx, p); err != nil {
		return err
	}
	w.end()
	return nil
}
