<?php
// block.php PORT NAME COUNT - prints COUNT ids, taken from hilod in blocks, with phpredis.
//
// PHP forgets everything after a request, so a block is worth it in workers that live on; a
// page that needs one id says INCR.
class Ids {
    private int $id = 1, $last = 0, $step = 1;

    public function __construct(private Redis $redis, private string $name,
                                private int $size = 1000) {}

    public function next(): int {
        if ($this->id > $this->last) {
            $block = $this->redis->rawCommand('BLOCK', $this->name, $this->size);
            if ($block === false)
                throw new RuntimeException($this->redis->getLastError());
            [$this->id, $this->last, $this->step] = array_map('intval', $block);
        }
        $id = $this->id;
        $this->id += $this->step;
        return $id;
    }
}

[, $port, $name, $count] = $argv;
$redis = new Redis();
$redis->connect('127.0.0.1', (int)$port);
$ids = new Ids($redis, $name);
for ($i = 0; $i < (int)$count; $i++)
    echo $ids->next(), "\n";
