"""What ``spark-submit`` is given to run: the command line, in a Spark that is there already.

``spark-submit --master spark://host:7077 --jars JARS headwater/submit.py apply``
"""

from headwater.cli.app import main

if __name__ == "__main__":
    main()
