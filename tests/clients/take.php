<?php
// take.php - phpredis with its default settings; see clients_test.py.
$redis = new Redis();
$redis->connect("127.0.0.1", (int)$argv[1]);
for ($i = 0; $i < 500; $i++) {
    echo "id ", $redis->incr("orders"), "\n";
}
$pipe = $redis->multi(Redis::PIPELINE);
for ($i = 0; $i < 500; $i++) {
    $pipe->rawCommand("NEXT", "orders");
}
foreach ($pipe->exec() as $id) {
    echo "id $id\n";
}
foreach ($redis->rawCommand("NEXT", "big", 1000) as $id) {
    echo "big $id\n";
}
echo "restart\n";
fgets(STDIN);
echo "id ", $redis->incr("orders"), "\n";
